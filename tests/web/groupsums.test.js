import assert from "node:assert/strict";
import { test } from "node:test";
import { GroupSums } from "../../web/data/groupsums.js";
import { faultsOfSums, meanOfSums } from "../../web/lib/charts/groups.js";
import { packed } from "./layers.js";

const series = {
  runs: 3,
  newest: { n: 2, mean: 1, std: 0, nonfinite: 1 },
  ...{ x: packed([0, 10]), n: packed([3, 0]), mean: packed([2, NaN]), std: packed([0.5, NaN]) },
  ...{ min: packed([1, NaN]), max: packed([4, NaN]) },
  ...{ nan: packed([0, 2]), pinf: packed([0, 1]), ninf: packed([0, 0]) },
};
const group = (id, runs) => ({ id, name: id, slot: 0, runs });

test("the band is the deviation or the range, and values that are not finite are marked", () => {
  const std = meanOfSums(group("g"), "--run-1", series, "std");
  const range = meanOfSums(group("g"), "--run-1", series, "range");
  assert.deepEqual([std.layer.min[0], std.layer.max[0]], [1.5, 2.5]);
  assert.deepEqual([range.layer.min[0], range.layer.max[0], range.of], [1, 4, 3]);
  const faults = faultsOfSums(series);
  assert.deepEqual(
    [faults.nan, faults.pinf, faults.n],
    [
      [0, 2],
      [0, 1],
      [3, 3],
    ],
  );
});

test("the same groups are requested once, and too many are an error", async () => {
  const asked = [];
  const failures = [];
  const api = {
    groups: async (body) => {
      asked.push(body);
      return { first: 0, last: 1, groups: body.groups.map(() => ({ series: { loss: series } })) };
    },
  };
  const sums = new GroupSums(api, { changed: () => {}, failed: (error) => failures.push(error.message) });
  const window = { x: "step", from: null, to: null };
  for (let i = 0; i < 2; i++) await sums.want([group("g", ["a", "b"])], ["loss"], window);
  assert.deepEqual([asked.length, asked[0].groups, asked[0].buckets], [1, [["a", "b"]], 200]);
  assert.deepEqual([sums.of("loss").length, sums.of("lr").length], [1, 0]);
  await sums.want(
    Array.from({ length: 501 }, (_, i) => group(`${i}`, [`${i}`])),
    ["loss"],
    window,
  );
  assert.deepEqual(failures, ["There are too many groups: 501. Group by fewer settings."]);
});
