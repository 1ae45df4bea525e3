import assert from "node:assert/strict";
import { test } from "node:test";
import {
  BLANK,
  bodyOf,
  conditionText,
  draftOf,
  idFrom,
  joinSpan,
  labelsOf,
  numberOf,
  scopeText,
  splitSpan,
  toml,
} from "../../web/lib/rules/ruledraft.js";

const RULE = {
  id: "a",
  title: "",
  series: "val/psnr",
  reducer: "mean",
  window: "5 min",
  comparison: "<",
  limit: 24,
  for: "1 step",
  recover: 25,
  keep_firing_for: "0 steps",
  severity: "critical",
  labels: { team: "a=b" },
  projects: ["x*", "y"],
  runs: [],
  tags: [],
  description: "",
  remedy: "",
  enabled: false,
};

test("a rule is unchanged after a round trip through the form", () => {
  assert.deepEqual(bodyOf(draftOf(RULE)), RULE);
  const absent = { ...RULE, reducer: "absent", comparison: null, limit: null, recover: null };
  assert.deepEqual(bodyOf(draftOf(absent)), absent);
  assert.equal(bodyOf({ ...BLANK, reducer: "value" }).window, null);
});

test("numbers are parsed as users write them; anything else is left to the server", () => {
  assert.deepEqual(["16 384", "\u22120.5", "2^14", "1e-3", "", "five", "NaN"].map(numberOf), [
    16384,
    -0.5,
    16384,
    0.001,
    null,
    "five",
    "NaN",
  ]);
});

test("durations split into number and unit, and join again", () => {
  assert.deepEqual(
    [splitSpan("20 steps"), splitSpan("1 step"), splitSpan("2.5 h"), splitSpan("?")],
    [
      ["20", "steps"],
      ["1", "steps"],
      ["2.5", "h"],
      ["", "steps"],
    ],
  );
  assert.equal(joinSpan(" ", "min"), "0 min");
});

test("an id follows from a title and is unique", () => {
  assert.equal(idFrom("PSNR is too low!", []), "psnr-is-too-low");
  assert.equal(idFrom("Ä", ["a", "a-2"]), "a-3");
  assert.equal(idFrom("名前", []), "rule");
});

test("labels are one per line; a value may contain an equals sign", () => {
  assert.deepEqual(labelsOf("team = a=b\n\nx"), { team: "a=b", x: "" });
});

test("the TOML leaves out defaults and quotes what must be quoted", () => {
  const text = toml(
    bodyOf({ ...BLANK, id: "a", title: 'say "hi"\n', limit: "5", keep_firing_for: "0 steps" }),
  );
  assert.equal(
    text,
    [
      "[[rule]]",
      'id = "a"',
      'title = "say \\"hi\\"\\u000a"',
      'series = "loss"',
      'reducer = "mean"',
      'window = "20 steps"',
      'comparison = ">"',
      "limit = 5",
    ].join("\n"),
  );
});

test("a rule is described in words", () => {
  assert.equal(conditionText(RULE), "mean of val/psnr over 5 min below 24 for 1 step");
  assert.equal(conditionText({ ...RULE, reducer: "absent" }), "no value of val/psnr for 5 min");
  assert.equal(scopeText(RULE), "project x* or y");
  assert.equal(scopeText({ ...RULE, projects: [] }), "all runs");
});
