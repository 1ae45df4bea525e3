import assert from "node:assert/strict";
import { test } from "node:test";
import { offsets, sight } from "../../web/lib/virtual.js";

const heights = Array.from({ length: 2000 }, (_, i) => (i % 7 ? 60 : 38));
const tops = offsets(heights);

test("every item in the window exists, and hardly any other", () => {
  for (const from of [0, 1, 37.5, 60, 5000, 50_000, tops[2000] - 900]) {
    const to = from + 900;
    const [first, end] = sight(tops, from, to);
    const needed = heights.map((_, i) => i).filter((i) => tops[i] < to && tops[i + 1] > from);
    assert.ok(first <= needed[0] && end > needed[needed.length - 1], String(from));
    assert.ok(end - first <= needed.length + 2);
  }
});

test("no items exist beyond both ends", () => {
  assert.deepEqual(sight(tops, -5000, -4000)[0], 0);
  assert.equal(sight(tops, 1e9, 1e9 + 10)[1], 2000);
  assert.deepEqual(sight(offsets([]), 0, 900), [0, 0]);
});
