import assert from "node:assert/strict";
import { test } from "node:test";
import { at, compact, finite, thin } from "../../web/lib/charts/buckets.js";
import { layerOf } from "./layers.js";

/** A repeatable stream of numbers in [0, 1). */
function stream(seed) {
  let state = seed;
  return () => ((state = (state * 1103515245 + 12345) % 2147483648), state / 2147483648);
}

function noisy(count, seed) {
  const random = stream(seed);
  return Array.from({ length: count }, (_, step) => {
    const roll = random();
    return [step, roll < 0.01 ? NaN : roll < 0.02 ? Infinity : roll < 0.03 ? -Infinity : random() * 100 - 50];
  });
}

const total = (layer, key) => layer[key].reduce((sum, n) => sum + n, 0);
const least = (layer) => Math.min(...layer.min.filter((v) => !Number.isNaN(v)));
const most = (layer) => Math.max(...layer.max.filter((v) => !Number.isNaN(v)));

test("the search finds the last item at or below", () => {
  assert.deepEqual(
    [at([1, 3, 5], 0), at([1, 3, 5], 1), at([1, 3, 5], 4), at([1, 3, 5], 9), at([], 1)],
    [-1, 0, 1, 2, -1],
  );
});

for (const width of [50, 333, 1000]) {
  test(`thinned to ${width} pixels, no spike and no non-finite value is lost`, () => {
    const layer = layerOf(noisy(5000, width));
    const out = thin(layer, 0, 4999, width);
    assert.ok(out.x.length <= width + 2, `${out.x.length} buckets`);
    for (const key of ["n", "nan", "pinf", "ninf"]) assert.equal(total(out, key), total(layer, key), key);
    assert.deepEqual([least(out), most(out)], [least(layer), most(layer)]);
  });
}

test("a bounded layer keeps its counts, extremes and newest steps", () => {
  const layer = layerOf(noisy(1000, 7));
  const out = compact(layer, 900);
  assert.ok(out.x.length <= 900);
  assert.equal(total(out, "n"), 1000);
  assert.equal(total(out, "nan"), total(layer, "nan"));
  assert.deepEqual([least(out), most(out)], [least(layer), most(layer)]);
  assert.deepEqual(out.x.slice(-100), layer.x.slice(-100));
});

test("the mean of buckets is the mean of their finite records", () => {
  const out = thin(
    layerOf([
      [0, 1],
      [1, 2],
      [2, NaN],
      [3, 6],
    ]),
    0,
    4,
    1,
  );
  assert.equal(out.mean[0], 3);
  assert.equal(finite(out, 0), 3);
});

test("records that arrive out of order are ordered by step, and duplicates are kept", () => {
  const layer = layerOf([
    [5, 1],
    [2, 2],
    [5, 3],
    [4, 4],
  ]);
  assert.deepEqual(layer.x, [2, 4, 5, 5]);
  assert.deepEqual(layer.last, [2, 4, 1, 3]);
});
