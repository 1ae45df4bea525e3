import assert from "node:assert/strict";
import { test } from "node:test";
import { picture } from "../../web/lib/charts/picture.js";
import { clippedOf, cutLine, scaleNote } from "../../web/lib/charts/clipped.js";
import { axisPlan, inliers } from "../../web/lib/charts/valueaxis.js";
import {
  AUTOMATIC,
  boxLimits,
  drawingOf,
  readScales,
  scalePairs,
  typedLimits,
} from "../../web/lib/views/scales.js";
import { layerOf } from "./layers.js";

const LINEAR = { axis: "linear" };
const WINDOW = [0, 100];
const WAVE = Array.from({ length: 50 }, (_, i) => [i, 1 + 0.1 * Math.sin(i)]);
const SPIKED = [layerOf([...WAVE, [60, 1e6], [61, NaN], [62, -1e6]])];
const draw = (drawing, layers = SPIKED) => picture(drawing, layers, [], WINDOW, 800, false);
const finite = (values) => values.filter(Number.isFinite);

test("without outliers one spike does not flatten the curve, and both sides have marks", () => {
  assert.ok(draw(LINEAR).plan.range[1] > 1e6);
  const { plan, clipped, lines, marks } = draw({ ...LINEAR, ignore: true });
  assert.ok(plan.range[1] < 2, String(plan.range));
  assert.deepEqual(
    clipped.map(({ x, kind }) => [x, kind]),
    [
      [60, "above"],
      [62, "below"],
    ],
  );
  assert.ok(Math.max(...finite(lines[0].y)) < 2);
  assert.deepEqual(
    marks.map(({ kind }) => kind),
    ["nan"],
  );
});

test("an automatic axis stays linear if only an outlier spreads the values", () => {
  const layers = [layerOf([...WAVE, [60, 1e6]])];
  assert.equal(draw({ axis: "auto" }, layers).plan.log, true);
  assert.equal(draw({ axis: "auto", ignore: true }, layers).plan.log, false);
});

test("values without outliers are all kept, also on a log axis", () => {
  const layers = [layerOf(WAVE.map(([x]) => [x, 10 ** (x / 10)]))];
  assert.deepEqual(inliers(layers, WINDOW, true), { low: 1, high: 10 ** 4.9, positive: 1 });
  assert.deepEqual(draw({ axis: "log", ignore: true }, layers).clipped, []);
});

test("limits end the axis exactly, one of them or both, beyond all values too", () => {
  const range = (limits, axis = "linear") => axisPlan({ axis, limits }, SPIKED, WINDOW, false).range;
  assert.deepEqual(range([0.9, 1.05]), [0.9, 1.05]);
  assert.equal(range([null, 2])[1], 2);
  assert.equal(range([5e6, null])[0], 5e6);
  assert.ok(range([5e6, null])[1] > 5e6);
  assert.deepEqual(range([0.1, 100], "log"), [-1, 2]);
  assert.equal(range([-3, 100], "log")[1], 2);
});

test("an axis with limits has ticks within them", () => {
  for (const axis of ["linear", "log", "log2"]) {
    const { ticks, labels } = axisPlan({ axis, limits: [0.93, 1.04] }, SPIKED, WINDOW, false);
    assert.ok(ticks.length > 1 && ticks.length === labels.length, axis);
    assert.ok(
      ticks.every((tick) => tick >= 0.93 && tick <= 1.04),
      `${axis}: ${ticks}`,
    );
  }
});

test("a line ends where it crosses a limit, and continues where it comes back", () => {
  const line = { x: [0, 1, 2, 3], y: [0, 4, 0, NaN] };
  assert.deepEqual(cutLine(line, [-1, 2], false, false), {
    x: [0, 0.5, 1, 1.5, 2, 3],
    y: [0, 2, NaN, 2, 0, NaN],
  });
  assert.deepEqual(cutLine(line, [-1, 2], true, false).x, [0, 1, 1, 2, 2, 3]);
  const down = cutLine({ x: [0, 4], y: [4, 0] }, [1, 3], false, false);
  assert.deepEqual(down, { x: [0, 1, 3, 4], y: [NaN, 3, 1, NaN] });
});

test("on a log axis a line crosses a limit where it is drawn", () => {
  assert.deepEqual(cutLine({ x: [0, 2], y: [1, 100] }, [0.1, 10], false, true).x, [0, 1, 2]);
  const layer = layerOf([
    [0, 0],
    [1, 0.01],
  ]);
  assert.deepEqual(
    clippedOf(layer, [0.1, 10], WINDOW, true).map(({ x }) => x),
    [1],
  );
});

test("the head of a chart says how it is scaled", () => {
  const one = { x: 0, kind: "above", count: 2 };
  assert.equal(scaleNote(LINEAR, []), "");
  assert.equal(scaleNote({ ...LINEAR, ignore: true }, [one]), "outliers ignored (2 beyond)");
  assert.equal(
    scaleNote({ ...LINEAR, limits: [0, 1] }, [{ ...one, least: true }]),
    "limits set (≥ 2 beyond)",
  );
});

test("the address holds the scale of each chart, whatever it is called", () => {
  const scales = {
    axes: { loss: "log" },
    limits: { "a:b..c": [null, -1e-7], loss: [0, 2.5], lr: [1e30, null] },
    clip: ["x:y", "loss"],
  };
  assert.deepEqual(readScales(new URLSearchParams(scalePairs(scales))), scales);
  for (const text of ["1..0:a", "..:a", "x..:a", "1:a", "1..2..3:a", "0..Infinity:a", "0..1:", "0..1"]) {
    assert.deepEqual(readScales(new URLSearchParams([["limits", text]])), AUTOMATIC, text);
  }
  const drawing = drawingOf({ name: "loss", drawing: { axis: "auto", zero: true } }, scales);
  assert.deepEqual(drawing, { axis: "log", zero: true, limits: [0, 2.5], ignore: true });
});

test("typed limits are numbers in order; errors say what to type", () => {
  assert.deepEqual(typedLimits(" −1 ", "1e-3", false), [-1, 0.001]);
  assert.deepEqual(typedLimits("", "2", true), [null, 2]);
  assert.equal(typedLimits("", " ", false), null);
  assert.throws(() => typedLimits("2", "1", false), /swap them/);
  assert.throws(() => typedLimits("0", "", true), /above 0/);
  assert.throws(() => typedLimits("many", "", false), /“many” is not a number/);
});

test("a box has the digits that can be seen", () => {
  assert.deepEqual(boxLimits([1.23456789, 1.98765432], false), [1.2345, 1.9877]);
  assert.deepEqual(boxLimits([-123456.7, 987654.3], false), [-124000, 988000]);
  assert.deepEqual(boxLimits([-3, 2.00001], true), [0.001, 100]);
});
