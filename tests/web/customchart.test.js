import assert from "node:assert/strict";
import { test } from "node:test";
import { compact } from "../../web/lib/charts/buckets.js";
import { combined } from "../../web/lib/charts/combined.js";
import {
  customColumns,
  customData,
  customName,
  customOf,
  MOST_CUSTOM,
  readCustom,
  resolve,
  usesMeans,
  whyEmpty,
  withChart,
  withoutChart,
} from "../../web/lib/charts/customchart.js";
import { readFormula } from "../../web/lib/charts/formula.js";
import { layerOf } from "./layers.js";

const KNOWN = ["train/loss", "train/acc", "val/loss"];
const difference = readFormula("train/loss - val/loss", KNOWN);
const of = (series) => (name) => series[name] ?? [];
const ramp = (from, to, every, value) => {
  const records = [];
  for (let step = from; step < to; step += every) records.push([step, value(step)]);
  return layerOf(records);
};

test("a formula has a value where all its series have a record", () => {
  const train = ramp(0, 100, 1, (step) => step);
  const val = ramp(10, 100, 20, () => 4);
  const [got] = combined(difference, of({ "train/loss": [train], "val/loss": [val] }));
  assert.deepEqual(got.x, [10, 30, 50, 70, 90]);
  assert.deepEqual(got.mean, [6, 26, 46, 66, 86]);
});

test("each attempt and rank is computed with its own records", () => {
  const train = [layerOf([[5, 9]], 2), layerOf([[5, 7]], 1)];
  const val = [layerOf([[5, 1]], 2), layerOf([[5, 2]], 1)];
  const got = combined(difference, of({ "train/loss": train, "val/loss": val }));
  assert.deepEqual(
    got.map(({ attempt, mean }) => [attempt, mean[0]]),
    [
      [2, 8],
      [1, 5],
    ],
  );
});

test("a NaN or Inf of an operand stays one in the result, exact and in a bucket", () => {
  const train = layerOf(
    [...Array(40).keys()].map((step) => [step, step === 3 ? NaN : step === 5 ? Infinity : 2]),
  );
  const val = ramp(0, 40, 1, () => 1);
  const [exact] = combined(difference, of({ "train/loss": [train], "val/loss": [val] }));
  assert.deepEqual([exact.nan[3], exact.pinf[5], exact.nan[4]], [1, 1, 0]);
  const [coarse] = combined(difference, of({ "train/loss": [compact(train, 20)], "val/loss": [val] }));
  assert.equal(coarse.nan.reduce((a, b) => a + b) > 0, true);
  assert.equal(coarse.mean[1], 1);
});

test("without a common step, the chart says so; without records too", () => {
  const resolved = resolve("formula:train/loss - val/loss", KNOWN);
  const why = (series) => whyEmpty(resolved, customData(resolved, of(series)), of(series));
  const odd = { "train/loss": [layerOf([[1, 1]])], "val/loss": [layerOf([[2, 1]])] };
  assert.equal(why(odd), "No step in the window has a record of all of train/loss, val/loss.");
  assert.equal(why({ "train/loss": odd["train/loss"] }), "No records here: val/loss.");
});

test("a list keeps its order, and names what the run does not report", () => {
  const { names, note } = resolve("list:val/loss\ntrain/loss\nnone", KNOWN);
  assert.deepEqual([names, note], [["val/loss", "train/loss"], "not reported: none"]);
  assert.match(resolve("list:none", KNOWN).problem, /reports none of none/);
});

test("a pattern is a bounded regular expression", () => {
  assert.deepEqual(resolve("match:^TRAIN/", KNOWN).names, ["train/loss", "train/acc"]);
  assert.match(resolve("match:(a+)+b", KNOWN).problem, /no repeated group/);
  assert.match(resolve("match:[", KNOWN).problem, /not a regular expression/);
  const many = resolve(
    "match:m",
    [...Array(40).keys()].map((n) => `m${n}`),
  );
  assert.deepEqual([many.names.length, many.note], [16, "16 of 40 metrics"]);
});

test("charts in the address are bounded, and unreadable ones ignored", () => {
  const asked = new URLSearchParams([
    ["panel", "list:"],
    ["panel", "evil:x"],
    ["panel", "match:a"],
  ]);
  assert.deepEqual(readCustom(asked), ["match:a"]);
  const many = new URLSearchParams([...Array(50).keys()].map((n) => ["panel", `match:${n}`]));
  assert.equal(readCustom(many).length, MOST_CUSTOM);
  assert.equal(customOf("loss"), null);
});

test("a chart is added in front, and an edited one keeps its place", () => {
  assert.equal(customName("list", " b \n\n a\nb"), "list:b\na");
  const none = { panels: ["match:a", "match:b"], pins: ["lr", "match:a"] };
  assert.deepEqual(withChart(none, null, "match:c").panels, ["match:c", "match:a", "match:b"]);
  assert.deepEqual(withChart(none, "match:a", "match:c"), {
    panels: ["match:c", "match:b"],
    pins: ["lr", "match:c"],
  });
  assert.deepEqual(withChart(none, "match:a", "match:b").panels, ["match:b"]);
  assert.deepEqual(withoutChart(none, "match:a"), { panels: ["match:b"], pins: ["lr"] });
});

test("a formula says when it is computed from means, and its table never is", () => {
  const shown = resolve("formula:train/loss - val/loss", KNOWN);
  const exact = { "train/loss": [ramp(0, 40, 1, (step) => step)], "val/loss": [ramp(0, 40, 1, () => 1)] };
  assert.equal(usesMeans(shown, of(exact)), false);
  assert.equal(usesMeans(shown, of({ ...exact, "val/loss": [compact(exact["val/loss"][0], 20)] })), true);
  const column = customColumns(shown).at(-1);
  assert.equal(column.of({ "train/loss": 3, "val/loss": 1 }), 2);
  assert.equal(column.of({ "train/loss": "NaN", "val/loss": 1 }), NaN);
  assert.equal(column.of({ "train/loss": 3 }), undefined);
});
