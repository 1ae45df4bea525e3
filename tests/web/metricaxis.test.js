import assert from "node:assert/strict";
import { test } from "node:test";
import { compact } from "../../web/lib/charts/buckets.js";
import { metricAxis, padded } from "../../web/lib/charts/metricaxis.js";
import { picture } from "../../web/lib/charts/picture.js";
import { overlay } from "../../web/lib/charts/compare.js";
import { layerOf } from "./layers.js";

const LINEAR = { axis: "linear" };
const epochs = layerOf([
  [2, 0.5],
  [4, 1],
  [6, 1.5],
]);
const losses = layerOf([0, 1, 2, 3, 4, 5, 6, 7].map((step) => [step, 10 - step]));

test("a value is at the last known value of the metric at or before its step", () => {
  const found = metricAxis("epoch", [[epochs]]).project(losses);
  assert.deepEqual(found.x, [0.5, 0.5, 1, 1, 1.5, 1.5]);
  assert.deepEqual(found.last, [8, 7, 6, 5, 4, 3]);
});

test("values before the metric's first one are left out and counted", () => {
  const look = { timeline: metricAxis("epoch", [[epochs]]) };
  const drawn = picture(LINEAR, [losses], [], [0, 2], 500, false, look);
  assert.equal(drawn.left, "2 values without epoch left out");
});

test("a NaN of the metric drops the values that it would place", () => {
  const broken = layerOf([
    [0, 1],
    [2, NaN],
    [4, 2],
  ]);
  const found = metricAxis("epoch", [[broken]]).project(losses);
  assert.deepEqual([found.x, found.left], [[1, 1, 2, 2, 2, 2], 2]);
});

test("a metric that falls again orders the values by it, each with its own value", () => {
  const rates = layerOf([
    [0, 1],
    [1, 3],
    [2, 2],
  ]);
  const found = metricAxis("lr", [[rates]]).project(
    layerOf([
      [0, 10],
      [1, 30],
      [2, 20],
    ]),
  );
  assert.deepEqual(
    [found.x, found.last],
    [
      [1, 2, 3],
      [10, 20, 30],
    ],
  );
});

test("in buckets, a point is within the range that the metric had in the same steps", () => {
  let tokens = layerOf(Array.from({ length: 64 }, (_, step) => [step, step * step]));
  let loss = layerOf(Array.from({ length: 64 }, (_, step) => [step, -step]));
  for (const limit of [50, 40]) [tokens, loss] = [compact(tokens, limit), compact(loss, limit)];
  const found = metricAxis("tokens", [[tokens]]).project(loss);
  assert.equal(found.x.length, tokens.x.length);
  found.x.forEach((x, i) => assert.ok(x >= tokens.min[i] && x <= tokens.max[i], `bucket ${i}: ${x}`));
});

test("a rank without the metric has that of rank 0, an attempt without one the older attempt's", () => {
  const line = metricAxis("epoch", [[epochs]]);
  const other = line.project(layerOf([[5, 1]], 2, 3));
  assert.deepEqual([other.x, line.toX(100)], [[1], 1.5]);
});

test("a mark at a step is where the values of that step are, and the way back finds the step", () => {
  const line = metricAxis("epoch", [[epochs]]);
  assert.deepEqual([line.toX(4), line.toX(5), line.toStep(1), line.toStep(1.2)], [1, 1, 4, 4]);
  assert.ok(Number.isNaN(line.toX(0)));
});

test("a range of the metric is the steps in it, and all steps if it holds all of the metric", () => {
  const line = metricAxis("epoch", [[epochs]]);
  assert.deepEqual(line.steps([0.9, 1.1]), [4, 6]);
  assert.deepEqual(line.steps([0, 2]), [-Infinity, Infinity]);
  assert.deepEqual(line.extent(3, 6), [0.5, 1.5]);
});

test("a window uses its finer values, and the run's before them", () => {
  const fine = layerOf([[5, 1.25]]);
  assert.deepEqual([5, 4].map(metricAxis("epoch", [[fine], [epochs]]).toX), [1.25, 1]);
});

test("in a comparison each run has its own metric, and what is left out is said", () => {
  const run = { id: "a", layers: [losses], ink: "--run-1", dash: "", line: metricAxis("epoch", [[epochs]]) };
  const drawn = overlay(LINEAR, [run], null, [0, 2], 900, false, 0);
  assert.deepEqual([...new Set(drawn.lines[0].x)], [0.5, 1, 1.5]);
  assert.equal(drawn.left, "2 values without epoch left out");
});

test("a metric that never changes still has an axis", () => {
  const [low, high] = padded([3, 3]);
  assert.ok(low < 3 && high > 3);
  assert.deepEqual(padded([NaN, NaN]), [0, 1]);
});
