import assert from "node:assert/strict";
import { test } from "node:test";
import { ABOVE, axesOf, BELOW, nearness, nextPlace, within } from "../../web/lib/charts/parallel.js";
import { factorsOf } from "../../web/lib/charts/sweep.js";

const run = (config, value, id = "r") => ({ id, name: id, state: "finished", config, value });
const axes = (runs) => axesOf(runs, factorsOf(runs), "loss");

test("a logarithmic key is spaced by its powers, a linear one by its value", () => {
  const [lr, n] = axes([run({ lr: 1e-4, n: 1 }, 1), run({ lr: 1e-3, n: 2 }, 2), run({ lr: 1e-2, n: 5 }, 3)]);
  assert.deepEqual(
    lr.places.map((place) => place.toFixed(3)),
    ["0.000", "0.500", "1.000"],
  );
  assert.deepEqual(n.places, [0, 0.25, 1]);
});

test("categories are spaced evenly in natural order, and a missing value is below them", () => {
  const [axis] = axes([run({ net: "vit-10" }, 1), run({ net: "vit-9" }, 2), run({}, 3)]);
  assert.deepEqual(axis.places, [1, 0, BELOW]);
  assert.deepEqual(
    axis.ticks.map(({ text }) => text),
    ["vit-9", "vit-10", "not set"],
  );
});

test("a run without a finite metric is drawn above the axis, one without the metric below", () => {
  const runs = [
    run({ a: 1 }, 1),
    run({ a: 2 }, 3),
    run({ a: 3 }, NaN),
    run({ a: 4 }, -Infinity),
    run({ a: 5 }, null),
  ];
  const metric = axes(runs).at(-1);
  assert.deepEqual(metric.places, [0, 1, ABOVE, ABOVE, BELOW]);
  assert.deepEqual(metric.texts, ["1", "3", "NaN", "−Inf", "no value"]);
});

test("every run has a place on every axis, whatever its settings", () => {
  const values = [0, -1, 1e308, 1e-308, "x", "", true, null, undefined, [1, 2], { deep: 3 }, NaN];
  const runs = values.map((value, i) => run({ value, n: value }, i % 3 ? Number(value) : null, `r${i}`));
  for (const axis of axes(runs)) {
    assert.equal(axis.places.length, runs.length);
    assert.ok(
      axis.places.every((place) => place >= BELOW && place <= ABOVE),
      axis.key,
    );
  }
});

test("ranges of several axes select the runs that are in all", () => {
  const found = axes([run({ a: 1, b: 1 }, 1), run({ a: 2, b: 2 }, 2), run({ a: 3, b: 1 }, 3)]);
  assert.deepEqual(within(found, new Map()), [true, true, true]);
  assert.deepEqual(within(found, new Map([["a", [0.5, 1]]])), [false, true, true]);
  const both = new Map([
    ["a", [0.5, 1]],
    ["b", [0, 0]],
  ]);
  assert.deepEqual(within(found, both), [false, false, true]);
});

test("the arrow keys go from value to value, then to the end", () => {
  const [axis] = axes([run({ a: 1 }, 1), run({ a: 2 }, 2), run({ a: 3 }, 3)]);
  assert.deepEqual(
    [BELOW, 0, 0.5, 1].map((place) => nextPlace(axis, place, 1)),
    [0, 0.5, 1, ABOVE],
  );
  assert.equal(nextPlace(axis, 0.5, -1), 0);
  assert.equal(nextPlace(axis, 0, -1), BELOW);
});

test("runs are colored by rank, those without a finite value not at all", () => {
  const runs = [run({}, 5), run({}, NaN), run({}, 1), run({}, 2)];
  assert.deepEqual(nearness(runs, "last"), [1, null, 0, 0.5]);
  assert.deepEqual(nearness(runs, "max"), [0, null, 1, 0.5]);
});
