import assert from "node:assert/strict";
import { test } from "node:test";
import { smooth } from "../../web/lib/charts/smooth.js";

test("the average of a constant is that constant from its first point on", () => {
  for (const value of smooth([3, 3, 3, 3], 0.9)) assert.ok(Math.abs(value - 3) < 1e-12);
});

test("non-finite values stay and don't affect later ones", () => {
  const with_ = smooth([1, NaN, 2, 3], 0.5);
  const without = smooth([1, 2, 3], 0.5);
  assert.ok(Number.isNaN(with_[1]));
  assert.deepEqual([with_[0], with_[2], with_[3]], without);
});

test("the corrected average weights newer points more", () => {
  assert.deepEqual(smooth([0, 1], 0.5), [0, 2 / 3]);
});

test("zero weight means no smoothing", () => {
  const y = [1, NaN, 5];
  assert.equal(smooth(y, 0), y);
});
