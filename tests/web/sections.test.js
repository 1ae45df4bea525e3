import assert from "node:assert/strict";
import { test } from "node:test";
import {
  canMoveTo,
  CUSTOM,
  givenFor,
  givenTitle,
  moved,
  nameFilter,
  PINNED,
  placedIn,
  RANKS,
  sections,
  SHUT_AT_FIRST,
} from "../../web/lib/charts/sections.js";

const NONE = { find: "", pins: [], order: [], placed: {} };
const NAMES = ["act/a", "act/b", "act/c", "pixel", "sys/gpu", "val/psnr"];
const shape = (view) => sections(NAMES, { ...NONE, ...view }).map(({ title, names }) => [title, ...names]);

test("series are grouped by prefix, system metrics last", () => {
  assert.deepEqual(shape({}), [
    ["General", "pixel"],
    ["act", "act/a", "act/b", "act/c"],
    ["val", "val/psnr"],
    ["System", "sys/gpu"],
  ]);
});

test("pinned series come first and only there", () => {
  assert.deepEqual(shape({ pins: ["val/psnr", "act/b", "gone"] })[0], ["Pinned", "val/psnr", "act/b"]);
  assert.equal(
    shape({ pins: ["val/psnr"] })
      .flat()
      .filter((name) => name === "val/psnr").length,
    1,
  );
});

test("a chart is in the section it was moved to, also in a new one and among the composed ones", () => {
  const placed = { "val/psnr": "act", pixel: "Mine", "formula:a": "act", "act/c": CUSTOM };
  const found = sections(NAMES, { ...NONE, placed, order: ["formula:a"] }, ["bar:x", "formula:a"]);
  assert.deepEqual(
    found.map(({ title, names }) => [title, ...names]),
    [
      ["Custom", "bar:x", "act/c"],
      ["Mine", "pixel"],
      ["act", "formula:a", "act/a", "act/b", "val/psnr"],
      ["System", "sys/gpu"],
    ],
  );
});

test("a chart that is back in its first section is not listed as moved", () => {
  assert.deepEqual(placedIn({ "act/a": "val" }, "act/a", "act", false), {});
  assert.deepEqual(placedIn({}, "act/a", "val", false), { "act/a": "val" });
  assert.deepEqual(placedIn({ "bar:x": "act" }, "bar:x", CUSTOM, true), {});
});

test("charts that the page composes are only pinned, and the section of ranks takes no other", () => {
  const given = "spread:step_time";
  assert.deepEqual([canMoveTo(given, PINNED), canMoveTo(given, "act")], [true, false]);
  assert.deepEqual([canMoveTo("act/a", RANKS), canMoveTo("act/a", "Mine")], [false, true]);
});

test("a filter has alternatives, wildcards and anchors; everything else is text", () => {
  assert.deepEqual(
    shape({ find: "^act|psnr$" }).map(([title]) => title),
    ["act", "val"],
  );
  for (const [text, name, holds] of [
    ["", "x", true],
    ["a(b", "xA(By", true],
    ["act/*max", "act/attn_max_2", true],
    ["act.*max$", "act/attn_max_2", false],
    ["^a*a$", "a", false],
    ["^a*a$", "aa", true],
    ["^loss$", "loss", true],
    ["^loss$", "loss2", false],
    ["a*b*c", "cba", false],
    ["$", "x", true],
  ]) {
    assert.equal(nameFilter(text)(name), holds, text);
  }
});

test("a filter that would hang as a regular expression finishes", () => {
  assert.equal(nameFilter("(a+)+b")("a".repeat(60)), false);
  assert.equal(nameFilter("*a".repeat(250))("a".repeat(250)), true);
});

test("moving a series puts it at that place and keeps the others' order", () => {
  const section = sections(NAMES, NONE)[1];
  for (const name of section.names) {
    for (let to = 0; to < 3; to++) {
      const now = sections(NAMES, { ...NONE, order: moved(section, name, to, []) })[1].names;
      assert.equal(now[to], name);
      assert.deepEqual(
        now.filter((each) => each !== name),
        section.names.filter((each) => each !== name),
      );
    }
  }
});

test("pinned series are moved within the pins", () => {
  const pins = ["pixel", "act/a", "val/psnr"];
  const [section] = sections(NAMES, { ...NONE, pins });
  assert.equal(section.key, PINNED);
  assert.deepEqual(moved(section, "val/psnr", 0, pins), ["val/psnr", "pixel", "act/a"]);
});

test("a pinned composed chart is with the pinned metrics, and the filter does not hide it", () => {
  const [pinned, custom] = sections(NAMES, { ...NONE, find: "zzz", pins: ["match:a"] }, [
    "match:a",
    "match:b",
  ]);
  assert.deepEqual([pinned.title, pinned.names], ["Pinned", ["match:a"]]);
  assert.deepEqual([custom.title, custom.names], ["Custom", ["match:b"]]);
});

test("several ranks have a section of their spread, and throughput is with the system metrics", () => {
  const given = givenFor(["step_time"], 2);
  const shown = sections(["sys/gpu"], NONE, [], given).map(({ title, names }) => [title, ...names]);
  assert.deepEqual(shown, [
    ["Ranks", "spread:step_time"],
    ["System", "formula:1 / step_time", "sys/gpu"],
  ]);
  assert.deepEqual(givenFor(["step_time"], 1), ["formula:1 / step_time"]);
  assert.deepEqual(givenFor(["loss"], 2), []);
  assert.equal(givenTitle("spread:step_time"), "spread of step_time over ranks");
  assert.equal(givenTitle("spread:loss"), undefined);
});

test("the series of the hook are collapsed at first, after those of the script", () => {
  const shown = sections(["hook/cost_us", "val/psnr"], NONE);
  assert.deepEqual(
    shown.map(({ key, title }) => [title, SHUT_AT_FIRST.includes(key)]),
    [
      ["val", false],
      ["Hook", true],
    ],
  );
});
