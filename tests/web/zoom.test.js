import assert from "node:assert/strict";
import { test } from "node:test";
import { isClick, keyFactor, pinched, wheelFactor, zoomCenter, zoomedAt } from "../../web/lib/charts/zoom.js";

test("the value at the pointer keeps its place", () => {
  assert.deepEqual(zoomedAt([0, 100], 25, 0.5), [12.5, 62.5]);
  assert.deepEqual(zoomedAt([12.5, 62.5], 25, 2), [0, 100]);
});

test("a turn of the wheel and its reverse cancel out, in every unit", () => {
  for (const deltaMode of [0, 1, 2]) {
    const product = wheelFactor({ deltaY: 9, deltaMode }) * wheelFactor({ deltaY: -9, deltaMode });
    assert.ok(Math.abs(product - 1) < 1e-12, `mode ${deltaMode}: ${product}`);
  }
});

test("away from the user zooms in, and one event at most halves the range", () => {
  assert.ok(wheelFactor({ deltaY: -10, deltaMode: 0 }) < 1);
  assert.equal(wheelFactor({ deltaY: -1e6, deltaMode: 0 }), 0.5);
});

test("plus and minus cancel out, with and without Shift", () => {
  assert.equal(Number(keyFactor("+")) * Number(keyFactor("-")), 1);
  assert.equal(keyFactor("="), keyFactor("+"));
  assert.equal(keyFactor("a"), null);
});

test("a key zooms around the cross line only if it is visible", () => {
  assert.deepEqual([zoomCenter([0, 10], 3), zoomCenter([0, 10], 30), zoomCenter([0, 10], null)], [3, 5, 5]);
});

test("the values under two fingers follow them", () => {
  const rounded = (/** @type {[number, number]} */ to) =>
    pinched([0, 100], [0.4, 0.6], to, 1000).map((value) => Math.round(value));
  assert.deepEqual(rounded([0.3, 0.7]), [25, 75]);
  assert.deepEqual(rounded([0.5, 0.7]), [-10, 90]);
});

test("two fingers at the same place keep a range", () => {
  const [a, b] = pinched([0, 100], [0.5, 0.5], [0.5, 0.5], 1000);
  assert.deepEqual([a, b], [0, 100]);
});

test("a pointer that moved is no click", () => {
  assert.equal(isClick({ clientX: 1, clientY: 1 }, { clientX: 3, clientY: 2 }), true);
  assert.equal(isClick({ clientX: 1, clientY: 1 }, { clientX: 9, clientY: 1 }), false);
});
