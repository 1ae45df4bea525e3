import assert from "node:assert/strict";
import { test } from "node:test";
import { amountWithin, smooth, SMOOTH_KINDS } from "../../web/lib/charts/smooth.js";

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

const AMOUNTS = { ema: 0.9, time: 0.9, gaussian: 3, mean: 5 };
const UNEQUAL = [0, 1, 2, 3, 50, 51, 60, 61, 62, 90];
const close = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);

for (const kind of SMOOTH_KINDS) {
  const how = { kind, amount: AMOUNTS[kind] };

  test(`${kind}: a constant stays constant, at unequal steps too`, () => {
    const constant = UNEQUAL.map(() => 3);
    for (const value of smooth(constant, how, UNEQUAL)) close(value, 3);
  });

  test(`${kind}: non-finite values stay where they are, and all others stay finite`, () => {
    const y = [1, 2, NaN, 4, Infinity, 6, -Infinity, 8, 9, 10];
    const got = smooth(y, how, UNEQUAL);
    for (const [i, value] of y.entries()) {
      if (Number.isFinite(value)) assert.ok(Number.isFinite(got[i]));
      else assert.ok(Object.is(got[i], value));
    }
  });

  test(`${kind}: a smoothed value is within the range of the values`, () => {
    const y = UNEQUAL.map((x) => Math.sin(x * 7) * 10);
    for (const value of smooth(y, how, UNEQUAL)) {
      assert.ok(value >= Math.min(...y) - 1e-9 && value <= Math.max(...y) + 1e-9);
    }
  });

  test(`${kind}: nothing before a gap changes with the values after it`, () => {
    const before = smooth([1, 5, 2, NaN, 7, 7], how).slice(0, 3);
    assert.deepEqual(smooth([1, 5, 2, NaN, 900, -40], how).slice(0, 3), before);
  });

  test(`${kind}: an amount of 0 means no smoothing`, () => {
    const y = [1, NaN, 5];
    assert.equal(smooth(y, { kind, amount: 0 }), y);
  });
}

test("time-weighted: the same as by step at equal steps; a longer gap forgets more", () => {
  const y = [1, 2, 5, 3];
  const time = { kind: "time", amount: 0.5 };
  smooth(y, time, [0, 10, 20, 30]).forEach((value, i) => close(value, smooth(y, 0.5)[i]));
  assert.ok(smooth([0, 0, 1], time, [0, 1, 100])[2] > smooth([0, 0, 1], time, [0, 1, 2])[2]);
});

test("running mean: the mean of the points around; Gaussian: nearer points weigh more", () => {
  assert.deepEqual(smooth([0, 3, 6, 9], { kind: "mean", amount: 2 }), [1.5, 3, 6, 7.5]);
  const bump = smooth([0, 0, 0, 1, 0, 0, 0], { kind: "gaussian", amount: 1 });
  assert.ok(bump[3] > bump[2] && bump[2] > bump[1] && bump[1] > 0);
  close(bump[2], bump[4]);
});

test("running mean: points beyond a long gap in steps are not in it", () => {
  assert.deepEqual(smooth([1, 1, 9, 9], { kind: "mean", amount: 1 }, [0, 1, 100, 101]), [1, 1, 9, 9]);
});

test("an amount is kept within the limits of its kind", () => {
  assert.deepEqual(
    [amountWithin("ema", 7), amountWithin("mean", 9_000), amountWithin("mean", NaN)],
    [0.99, 200, 0],
  );
});

test("a time-weighted average of values at one place is their mean", () => {
  const how = { kind: /** @type {const} */ ("time"), amount: 0.5 };
  const got = smooth([2, 4, 9, 1], how, [0, 0, 0, 3]);
  for (const [i, value] of [2, 3, 5].entries()) close(got[i], value);
  assert.ok(got[3] < 5 && got[3] > 1);
});
