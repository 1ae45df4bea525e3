import assert from "node:assert/strict";
import { test } from "node:test";
import { linearAxis, log2Axis, logAxis, niceStep, prefersLog, withRail } from "../../web/lib/charts/axis.js";

test("ticks are 1, 2, 5 times a power of ten", () => {
  assert.deepEqual([0.7, 1, 1.2, 3, 7, 0.013].map(niceStep), [1, 1, 2, 5, 10, 0.02]);
});

test("a linear axis contains its data and starts at zero if zero is near", () => {
  for (const [low, high] of [
    [0.3, 2.7],
    [90, 101],
    [-3, -1],
    [-2, 5],
    [0, 0],
    [1e-5, 3e-5],
  ]) {
    const { range, ticks, labels } = linearAxis(low, high);
    assert.ok(range[0] <= low && range[1] >= high, `${low} to ${high} in ${range}`);
    assert.ok(ticks.length >= 2 && ticks.length <= 9 && labels.length === ticks.length, `${ticks}`);
  }
  assert.equal(linearAxis(0.3, 2.7).range[0], 0);
  assert.ok(linearAxis(90, 101).range[0] > 0);
});

test("a constant series is drawn flat: the axis spans five percent of the value", () => {
  const { range } = linearAxis(100, 100.001);
  assert.ok(range[1] - range[0] >= 5);
});

test("tick labels have no floating-point noise", () => {
  assert.deepEqual(linearAxis(0, 0.7).labels, ["0", "0.2", "0.4", "0.6", "0.8"]);
  assert.deepEqual(
    linearAxis(0.0205, 0.0214).labels.every((label) => label.length <= 7),
    true,
  );
});

test("a log axis has powers of ten, and values between them for few decades", () => {
  assert.deepEqual(logAxis(0.2, 300).labels, ["0.1", "1", "10", "100", "1\u202f000"]);
  assert.deepEqual(logAxis(1.5, 1.9).labels, ["1.5", "2"]);
  const { range } = logAxis(0.2, 300);
  assert.ok(10 ** range[0] <= 0.2 && 10 ** range[1] >= 300);
});

test("the axis of the loss scale has powers of two, also below one", () => {
  const { ticks, labels, range } = log2Axis(1, 65536);
  assert.ok(ticks.every((v) => Number.isInteger(Math.log2(v))));
  assert.ok(labels.includes("2⁴") || labels.includes("2⁰"));
  assert.ok(10 ** range[0] < 1 && 10 ** range[1] > 65536);
  assert.ok(log2Axis(2 ** -149, 65536).labels.some((label) => label.startsWith("2⁻")));
});

test("an axis exists even without positive values", () => {
  for (const plan of [
    logAxis(Infinity, -Infinity),
    log2Axis(Infinity, -Infinity),
    linearAxis(Infinity, -Infinity),
  ]) {
    assert.ok(plan.range.every(Number.isFinite) && plan.ticks.length > 1);
  }
});

test("the room for marks is a fixed share", () => {
  const plan = withRail({ log: false, range: [0, 8], ticks: [], labels: [] }, 0.1, 0.1);
  assert.deepEqual(
    plan.range.map((v) => Math.round(v * 1e6) / 1e6),
    [-1, 9],
  );
});

test("an automatic axis turns logarithmic for a wide spread, and back much later", () => {
  assert.deepEqual(
    [prefersLog(0.1, 50, false), prefersLog(1, 50, false), prefersLog(1, 50, true), prefersLog(0, 50, true)],
    [true, false, true, false],
  );
});

test("labels identify their ticks at every size of values", () => {
  const read = (/** @type {string} */ label) => Number(label.replaceAll("\u202f", "").replace("−", "-"));
  for (const size of [1e-9, 1e-5, 1e-4, 1e-3, 0.03, 1, 700, 1e4, 1e5, 1e6, 3e12]) {
    for (const [low, high] of [
      [0, 1.1],
      [1, 1],
      [0.96, 1.04],
      [-1.5, 1.5],
      [1.02, 1.31],
    ]) {
      const { ticks, labels } = linearAxis(low * size, high * size);
      labels.forEach((label, i) =>
        assert.ok(Math.abs(read(label) - ticks[i]) <= Math.abs(ticks[i]) * 1e-9, `${label} at ${ticks[i]}`),
      );
    }
  }
});

test("the widest and the narrowest floats have an axis with finite ends and few ticks", () => {
  const ends = [-1.797e308, -1e308, -1, -1e-310, 0, 5e-324, 1e-310, 3, 1e308, 1.797e308];
  for (const low of ends) {
    for (const high of ends.filter((each) => each >= low)) {
      const plan = withRail(linearAxis(low, high), 0.2, 0.14);
      const [from, to] = plan.range;
      assert.ok(from < to && Number.isFinite(to - from), `${low} to ${high}: ${plan.range}`);
      assert.ok(plan.ticks.length > 1 && plan.ticks.length < 12, `${low} to ${high}: ${plan.ticks}`);
    }
  }
});
