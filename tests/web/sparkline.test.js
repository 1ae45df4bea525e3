import assert from "node:assert/strict";
import { test } from "node:test";
import { overviewPath } from "../../web/lib/charts/overviewshape.js";
import { sparkShape, spreads } from "../../web/lib/charts/sparkline.js";
import { layerOf } from "./layers.js";

const bucket = (low, high, nan = 0, pinf = 0, ninf = 0) => [low, high, (low + high) / 2, nan, pinf, ninf];
const sparkOf = (buckets) => ({ x0: 0, x1: 100, buckets });
const ys = (path) => [...path.matchAll(/[ML]\S+ (\S+?)(?=[LMZ]|$)/g)].map((found) => Number(found[1]));

test("a spike of one record is the highest point", () => {
  const { band } = sparkShape(sparkOf([bucket(1, 1), bucket(1, 9), bucket(1, 1)]));
  const heights = ys(band);
  assert.equal(Math.min(...heights), heights[1]);
});

test("each kind of non-finite value has its mark, one per range", () => {
  const { marks } = sparkShape(
    sparkOf([
      [null, null, null, 3, 0, 0],
      ...Array(9).fill(bucket(1, 2)),
      bucket(1, 2, 0, 1),
      bucket(1, 2, 0, 1),
    ]),
  );
  assert.deepEqual(
    marks.map(({ kind }) => kind),
    ["nan", "pinf"],
  );
});

for (const part of ["line", "band"]) {
  test(`a bucket without finite values breaks the ${part}, one without steps doesn't`, () => {
    const count = (between) =>
      sparkShape(sparkOf([bucket(1, 2), between, bucket(1, 2)]))[part].match(/M/g)?.length;
    assert.deepEqual([count([null, null, null, 1, 0, 0]), count(null)], [2, 1]);
  });
}

test("the onset is at its share of the run, and absent if out of range", () => {
  const at = (onset) => sparkShape(sparkOf([bucket(1, 2), bucket(1, 2)]), { onset }).onset;
  assert.deepEqual([at(25), at(null), at(200)], [0.25, null, null]);
});

test("constant, empty, zero and non-finite series have a shape without NaN", () => {
  for (const buckets of [
    [bucket(5, 5)],
    [],
    [null],
    [bucket(0, 0), bucket(0, 1)],
    [[null, null, null, 1, 0, 0]],
  ]) {
    for (const log of [true, false, "auto"]) {
      assert.doesNotMatch(JSON.stringify(sparkShape(sparkOf(buckets), { log })), /NaN|Infinity/);
    }
  }
});

test("values spread by more than three use a log axis, but not with zeros", () => {
  assert.deepEqual(
    [spreads([bucket(1, 9)]), spreads([bucket(1, 2)]), spreads([bucket(0, 9)])],
    [true, false, false],
  );
});

test("the overview strip keeps spikes and breaks at gaps", () => {
  const path = overviewPath(
    [
      layerOf([
        [0, 1],
        [5, 2],
        [10, NaN],
        [20, 15],
        [30, 1],
      ]),
    ],
    0,
    30,
  );
  assert.equal(path.match(/M/g).length, 2);
  assert.doesNotMatch(path, /NaN/);
  assert.ok(Math.min(...ys(path)) < 6);
  assert.equal(overviewPath([], 0, 10), "");
});
