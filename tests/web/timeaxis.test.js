import assert from "node:assert/strict";
import { test } from "node:test";
import { byTime, moments, STEPS, timeline } from "../../web/lib/charts/timeaxis.js";
import { layerOf } from "./layers.js";

/** Steps at times of their own: [[step, ms], ...]. */
const told = (pairs, attempt = 1) => ({
  ...layerOf(
    pairs.map(([step]) => [step, step]),
    attempt,
  ),
  t: pairs.map(([, t]) => t),
});

test("steps convert to times and back", () => {
  const line = timeline(
    "relative",
    moments([
      [
        told([
          [0, 1000],
          [10, 2000],
          [20, 4000],
        ]),
      ],
    ]),
  );
  assert.deepEqual([line.toX(0), line.toX(15), line.toX(20)], [0, 2000, 3000]);
  for (const step of [-3, 0, 4, 10, 19, 20, 31]) {
    assert.ok(Math.abs(line.toStep(line.toX(step)) - step) < 1e-9, String(step));
  }
});

test("after a restart the newest attempt's times count, and time never decreases", () => {
  const { steps, times } = moments([
    [
      told(
        [
          [5, 900],
          [10, 1000],
        ],
        2,
      ),
      told(
        [
          [0, 100],
          [5, 200],
          [8, 300],
        ],
        1,
      ),
    ],
  ]);
  assert.deepEqual(steps, [0, 5, 10]);
  assert.ok(times.every((time, i) => i === 0 || time > times[i - 1]));
});

test("a run without records is shown by step", () => {
  const line = timeline("wall", moments([[]]));
  assert.deepEqual([line.toX(7), line.toStep(7)], [7, 7]);
});

test("records that arrived out of order are drawn in order of time, each with its value", () => {
  const layer = byTime(
    told([
      [0, 30],
      [1, 10],
      [2, 20],
    ]),
    10,
  );
  assert.deepEqual(
    [layer.x, layer.last],
    [
      [0, 10, 20],
      [1, 2, 0],
    ],
  );
});

test("by step nothing is converted", () => {
  const layer = told([
    [0, 5],
    [1, 6],
  ]);
  assert.equal(STEPS.project(layer), layer);
  assert.equal(STEPS.toX(3), 3);
});
