import assert from "node:assert/strict";
import { test } from "node:test";
import { readQuantity } from "../../web/lib/charts/quantity.js";
import {
  binsOf,
  byValue,
  metricsIn,
  numberAxis,
  readRunChart,
  readRunCharts,
  runAxis,
  runChartText,
} from "../../web/lib/charts/runcharts.js";

const runs = (values, config = () => ({})) =>
  values.map((last, i) => ({
    id: `r${i}`,
    name: `run ${i}`,
    ink: "--run-1",
    config: config(i),
    metrics: last === undefined ? {} : { loss: { last, min: null, max: null, n: 1, nonfinite: 0, step: 1 } },
  }));
const loss = readQuantity("last(loss)");

test("a chart reads as it is written, and one that is not understood is ignored", () => {
  const text = "scatter:config.lr\nmin(val/loss)";
  assert.equal(runChartText(readRunChart(text)), text);
  for (const bad of ["scatter:loss", "bar:", "pie:loss", "toString:loss", "bar:a\nb"]) {
    assert.equal(readRunChart(bad), null);
  }
  const asked = new URLSearchParams([
    ["chart", text],
    ["chart", "pie:loss"],
    ["chart", text],
  ]);
  assert.deepEqual(readRunCharts(asked), [text]);
  assert.deepEqual(metricsIn([text, "bar:config.lr", "bar:val/loss"]), ["val/loss"]);
});

test("NaN, infinite and missing values have no place on an axis", () => {
  const axis = runAxis(loss, runs([0, 2, "NaN", "Infinity", undefined]));
  assert.deepEqual(
    runs([0, 2, "NaN", "Infinity", undefined]).map((run) => axis.place(run) !== null),
    [true, true, false, false, false],
  );
});

test("numbers over decades have a log axis", () => {
  const given = runs([1e-4, 1e-2, 1]);
  const axis = runAxis(loss, given);
  const [a, b, c] = given.map((run) => axis.place(run));
  assert.ok(Math.abs(b - a - (c - b)) < 1e-9);
});

test("a setting that is text has a place for each value", () => {
  const given = runs([1, 1, 1], (i) => ({ opt: ["sgd", "adam", "sgd"][i] }));
  const axis = runAxis(readQuantity("config.opt"), given);
  assert.deepEqual(
    axis.ticks.map(({ text }) => text),
    ["adam", "sgd"],
  );
  assert.deepEqual(
    given.map((run) => axis.place(run)),
    [0.75, 0.25, 0.75],
  );
});

test("each finite run is in one bin; equal values share one", () => {
  const given = runs([1, 2, 3, 4, 5, 5, "NaN"]);
  const bins = binsOf(runAxis(loss, given), given);
  assert.equal(
    bins.reduce((sum, bin) => sum + bin.runs.length, 0),
    6,
  );
  assert.deepEqual(
    bins.at(-1).runs.map(({ id }) => id),
    ["r4", "r5"],
  );
  const same = runs([3, 3, 3]);
  assert.deepEqual(
    binsOf(runAxis(loss, same), same).map((bin) => bin.runs.length),
    [3],
  );
});

test("bars are by value, and runs without a finite one last", () => {
  const order = byValue(loss, runs([3, "NaN", undefined, -1])).map(({ run }) => run.id);
  assert.deepEqual(order, ["r3", "r0", "r1", "r2"]);
});

test("the axis of a chart is as it was chosen", () => {
  assert.deepEqual([numberAxis([1, 10]).log, numberAxis([1, 100]).log], [false, true]);
  assert.deepEqual([numberAxis([1, 100], "linear").log, numberAxis([1, 10], "log").log], [false, true]);
  const { at, ticks } = numberAxis([0, -1, 1, 1000], "log");
  assert.ok(at(1) >= 0 && at(1000) <= 1 && at(100) > 0.5);
  assert.ok(![at(0), at(-1)].some(Number.isFinite));
  assert.ok(ticks.some(({ text }) => text === "100"));
});
