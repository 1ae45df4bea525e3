import assert from "node:assert/strict";
import { test } from "node:test";
import { compact } from "../../web/lib/charts/buckets.js";
import { pairsOf } from "../../web/lib/charts/pairs.js";
import { layerOf } from "./layers.js";

const of = (series) => (name) => series[name] ?? [];
const steps = (count, value) => [...Array(count).keys()].map((step) => [step, value(step)]);

test("a pair has both metrics of a step", () => {
  const series = {
    a: [layerOf(steps(4, (step) => step))],
    b: [
      layerOf([
        [1, 5],
        [3, 7],
      ]),
    ],
  };
  assert.deepEqual(pairsOf(["a", "b"], of(series)).pairs, [
    { step: 1, x: 1, y: 5 },
    { step: 3, x: 3, y: 7 },
  ]);
});

test("steps at which one is NaN or infinite are counted", () => {
  const bad = layerOf([
    [0, 1],
    [1, NaN],
    [2, Infinity],
  ]);
  const { pairs, bad: count } = pairsOf(["a", "b"], of({ a: [layerOf(steps(3, () => 2))], b: [bad] }));
  assert.deepEqual([pairs.length, count], [1, 2]);
});

test("only the newest attempt is drawn, and means are said", () => {
  const [old, now] = [
    layerOf(
      steps(40, () => 9),
      1,
    ),
    layerOf(
      steps(40, (step) => step),
      2,
    ),
  ];
  const exact = pairsOf(["a", "a"], of({ a: [now, old] }));
  assert.deepEqual([exact.pairs.at(-1), exact.means], [{ step: 39, x: 39, y: 39 }, false]);
  assert.equal(pairsOf(["a", "a"], of({ a: [compact(now, 20)] })).means, true);
});

test("a metric without records has no pairs", () => {
  assert.deepEqual(pairsOf(["a", "b"], of({ a: [layerOf([[1, 1]])] })).pairs, []);
});
