import assert from "node:assert/strict";
import { test } from "node:test";
import { picture } from "../../web/lib/charts/picture.js";
import { leading, rankRange, ranksOf } from "../../web/lib/charts/ranks.js";
import { layerOf } from "./layers.js";

const ranks = [0, 1, 2].map((rank) =>
  layerOf(
    [
      [0, rank],
      [1, 10 * rank],
      [2, rank === 2 ? NaN : 5],
    ],
    1,
    rank,
  ),
);

test("the band contains every rank's minimum and maximum", () => {
  const band = rankRange(ranks, [0, 3], 3);
  assert.deepEqual(
    [band.min, band.max],
    [
      [0, 0, 5],
      [2, 20, 5],
    ],
  );
});

test("a single rank has no band", () => {
  assert.equal(rankRange(ranks.slice(0, 1), [0, 3], 3), null);
});

test("a chosen rank comes first in its attempts, and ranks are listed in order", () => {
  assert.deepEqual(
    leading(ranks, 2).map((layer) => layer.rank),
    [2, 0, 1],
  );
  assert.equal(leading(ranks, 9), ranks);
  assert.deepEqual(ranksOf([...ranks].reverse()), [0, 1, 2]);
});

test("behind the band of all ranks only one is a line, but all ranks' marks are drawn", () => {
  const { lines, marks } = picture({ axis: "linear" }, ranks, [], [0, 3], 100, false, { ranks: "band" });
  assert.equal(lines.length, 1);
  assert.deepEqual(
    marks.map(({ kind, x }) => [kind, x]),
    [["nan", 2]],
  );
  assert.equal(picture({ axis: "linear" }, ranks, [], [0, 3], 100, false, { ranks: "each" }).lines.length, 3);
});
