import assert from "node:assert/strict";
import { test } from "node:test";
import { compact } from "../../web/lib/charts/buckets.js";
import { logarithmic } from "../../web/lib/charts/logaxis.js";
import { metricAxis } from "../../web/lib/charts/metricaxis.js";
import { picture } from "../../web/lib/charts/picture.js";
import { STEPS, timeline } from "../../web/lib/charts/timeaxis.js";
import { layerOf } from "./layers.js";

const STEPPED = logarithmic(STEPS);
const losses = layerOf([0, 1, 10, 100].map((step) => [step, step]));

test("steps are at their logarithm, and back", () => {
  assert.deepEqual([STEPPED.toX(1000), STEPPED.toStep(2)], [3, 100]);
  assert.deepEqual(STEPPED.project(losses).x, [0, 1, 2]);
});

test("step 0 is left out, and the chart says so", () => {
  const drawn = picture({ axis: "linear" }, [losses], [], [0, 2], 500, false, { timeline: STEPPED });
  assert.equal(drawn.left, "1 value at step 0 or below left out");
});

test("a bucket that begins at step 0 is at its end and is not left out", () => {
  const bucketed = compact(layerOf([0, 1, 2, 3, 4, 5, 6, 7].map((step) => [step, step])), 4);
  const found = STEPPED.project(bucketed);
  assert.deepEqual([found.x[0], found.left ?? 0], [0, 0]);
});

test("the range of a run begins at its first position above zero", () => {
  assert.deepEqual(STEPPED.extent(0, 1000), [0, 3]);
  const line = logarithmic(timeline("relative", { steps: [0, 1, 2], times: [5000, 5100, 6000] }));
  assert.deepEqual(line.extent(0, 2), [2, 3]);
});

test("times have ticks of seconds, minutes and hours, steps of powers of ten", () => {
  const line = logarithmic(timeline("relative", { steps: [0, 1], times: [0, 1] }));
  assert.deepEqual(line.ticks([2.9, 6.9]).labels, ["1 s", "10 s", "1 min", "10 min", "1 h"]);
  assert.deepEqual(STEPPED.ticks([0, 3]).values, [0, 1, 2, 3]);
});

test("of a metric, values at or below zero are left out with those without one", () => {
  const tokens = metricAxis("tokens", [
    [
      layerOf([
        [1, 0],
        [10, 100],
      ]),
    ],
  ]);
  const look = { timeline: logarithmic(tokens) };
  const drawn = picture({ axis: "linear" }, [losses], [], [0, 3], 500, false, look);
  assert.equal(drawn.left, "2 values without tokens above 0 left out");
});
