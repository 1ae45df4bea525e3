import assert from "node:assert/strict";
import { test } from "node:test";
import { compact } from "../../web/lib/charts/buckets.js";
import { overlayGroups } from "../../web/lib/charts/groups.js";
import { picture } from "../../web/lib/charts/picture.js";
import { moments, timeline } from "../../web/lib/charts/timeaxis.js";
import { layerOf } from "./layers.js";

const HOUR = 3_600_000;

/** Steps of one second; before step `at` the run pauses for `hours`. */
function paused(steps, at, hours, attempt = 1, first = 0) {
  const layer = layerOf(
    Array.from({ length: steps }, (_, i) => [first + i, 1]),
    attempt,
  );
  layer.t = layer.x.map((step) => step * 1000 + (step >= at ? hours * HOUR : 0));
  return layer;
}

/** Return the gaps in the drawn line: the positions between which there is none, in seconds. */
const gaps = ({ x, y }) =>
  y.flatMap((value, i) =>
    i && Number.isNaN(value) && i + 1 < y.length
      ? [[x[i - 1], x[i + 1]].map((at) => Math.round(at / 1000))]
      : [],
  );

test("a run that pauses over night has a gap in its line", () => {
  const layer = paused(100, 50, 14);
  const line = timeline("relative", moments([[layer]]));
  const drawn = picture({ axis: "linear" }, [layer], [], line.extent(0, 99), 5000, false, { timeline: line });
  const [[from, to], ...more] = gaps(drawn.lines[0]);
  assert.ok(from < 50 && to > 14 * 3600 && !more.length);
});

test("so does a series that is recorded rarely, and the mean of a group", () => {
  const layer = paused(100, 50, 14);
  const rare = { ...layerOf([[10, 1], [80, 2]]), t: [layer.t[10], layer.t[80]] }; // prettier-ignore
  const line = timeline("wall", moments([[layer]]));
  assert.ok(line.project(rare).n.includes(0));
  const range = line.extent(0, 99);
  const member = { id: "a", layers: [layer], ink: "--run-1", dash: "", line };
  const group = { id: "g", name: "all", slot: 0, runs: ["a"] };
  const gathered = [{ group, ink: "--run-1", dash: "", members: [member] }];
  const drawn = overlayGroups({ axis: "linear" }, gathered, null, "std", range, 5000, false, 0);
  const middle = (range[0] + range[1]) / 2;
  assert.ok(!drawn.means[0].layer.x.some((x, i) => Math.abs(x - middle) < HOUR && drawn.means[0].layer.n[i]));
});

test("a killed run that is resumed the next day pauses between its attempts", () => {
  const sets = [[paused(50, 0, 20, 2, 40), paused(60, 100, 0)]];
  assert.deepEqual(moments(sets).pauses, [[59_000, 40_000 + 20 * HOUR]]);
});

test("steps of several minutes are no pauses, nor is a slow step among fast ones", () => {
  const slow = layerOf([0, 1, 2, 3, 4].map((step) => [step, 1]));
  slow.t = slow.x.map((step) => step * 10 * 60_000);
  assert.deepEqual(moments([[slow]]).pauses, []);
  assert.deepEqual(moments([[paused(100, 50, 30 / 3600)]]).pauses, []);
});

test("coarse buckets beside new records are no pauses", () => {
  let layer = paused(40_000, 50_000, 0);
  for (const limit of [20_000, 10_000, 6_000, 4_000, 2_000]) layer = compact(layer, limit);
  assert.ok(layer.n[0] > 8);
  assert.deepEqual(moments([[layer]]).pauses, []);
});

test("where the window has finer records, their pauses count", () => {
  const coarse = { ...layerOf([0, 50, 100, 150, 200].map((step) => [step, 1])) };
  coarse.t = [0, 50_000, 100_000, 100_000 + 9 * HOUR, 150_000 + 9 * HOUR];
  const fine = paused(120, 110, 9, 1, 60);
  assert.deepEqual(moments([[coarse], [fine]]).pauses, [[109_000, 110_000 + 9 * HOUR]]);
});
