import assert from "node:assert/strict";
import { test } from "node:test";
import { thin } from "../../web/lib/charts/buckets.js";
import { countMarks, isolated, marksOf, mergeMarks, skippedSteps } from "../../web/lib/charts/marks.js";
import { layerOf } from "./layers.js";

const RECORDS = [
  [0, 1],
  [1, NaN],
  [2, Infinity],
  [3, -Infinity],
  [4, 0],
  [5, -2],
];

test("every value that a line cannot show is a mark at its step", () => {
  const marks = marksOf(layerOf(RECORDS), true, 0, 10);
  assert.deepEqual(
    marks.map(({ x, kind }) => [x, kind]),
    [
      [1, "nan"],
      [2, "pinf"],
      [3, "ninf"],
      [4, "zero"],
      [5, "negative"],
    ],
  );
});

test("zeros and negatives are marks only on a log axis", () => {
  assert.deepEqual(
    marksOf(layerOf(RECORDS), false, 0, 10).map(({ kind }) => kind),
    ["nan", "pinf", "ninf"],
  );
});

test("marks outside the window are not drawn", () => {
  assert.deepEqual(
    marksOf(layerOf(RECORDS), true, 2, 3).map(({ x }) => x),
    [2, 3],
  );
});

test("marks closer than their width merge, and their counts add up", () => {
  const merged = mergeMarks(
    [
      { x: 0, kind: "nan", count: 1 },
      { x: 3, kind: "nan", count: 2 },
      { x: 3, kind: "pinf", count: 1 },
      { x: 20, kind: "nan", count: 1 },
    ],
    10,
  );
  assert.deepEqual(
    merged.map(({ x, kind, count }) => [x, kind, count]),
    [
      [0, "nan", 3],
      [3, "pinf", 1],
      [20, "nan", 1],
    ],
  );
  assert.equal(countMarks(merged), "4 NaN · 1 +Inf");
});

test("a bucket that hides the number of zeros says at least", () => {
  const layer = thin(
    layerOf([
      [0, 0],
      [1, 0],
      [2, 5],
    ]),
    0,
    3,
    1,
  );
  assert.equal(countMarks(marksOf(layer, true, 0, 3)), "≥ 1 zero");
  assert.equal(
    countMarks(
      marksOf(
        thin(
          layerOf([
            [0, 0],
            [1, 0],
          ]),
          0,
          2,
          1,
        ),
        true,
        0,
        2,
      ),
    ),
    "2 zero",
  );
});

test("skipped steps come from the series, at most one per pixel", () => {
  const skipped = [
    layerOf([
      [0, 0],
      [1, 1],
      [2, 1],
      [9, 1],
    ]),
  ];
  assert.deepEqual(skippedSteps(skipped, 0, 10, 1), [1, 2, 9]);
  assert.deepEqual(skippedSteps(skipped, 0, 10, 5), [1, 9]);
});

test("a value alone between two gaps is a dot, because no line shows it", () => {
  assert.deepEqual(isolated([NaN, 5, NaN, 1, 2]), [0, 5, 0, 0, 0]);
  assert.deepEqual(isolated([5, NaN, 1, 2, NaN, 7]), [5, 0, 0, 0, 0, 5]);
  assert.equal(isolated([1, 2, NaN, 3, 4]), null);
});
