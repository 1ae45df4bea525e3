import assert from "node:assert/strict";
import { test } from "node:test";
import { compact } from "../../web/lib/charts/buckets.js";
import { rankRows, rankWords, seconds, spreadOf } from "../../web/lib/charts/rankstats.js";
import { layerOf } from "./layers.js";

const steps = (count, value) => [...Array(count).keys()].map((step) => [step, value(step)]);
const ranked = (rank, records, attempt = 1) => ({ ...layerOf(records, attempt), rank });
const writers = (ranks, attempt = 1) =>
  ranks.map((rank) => ({ attempt, rank, host: `node-${rank}`, connected: true, records: 1 }));
const timesOf = (times) =>
  times.map((time, rank) =>
    ranked(
      rank,
      steps(20, () => time),
    ),
  );
const words = (times, data = [], counts = []) => {
  const layers = {
    step_time: times.map((time, rank) =>
      ranked(
        rank,
        steps(counts[rank] ?? 20, () => time),
      ),
    ),
    data_time: data.map((time, rank) =>
      ranked(
        rank,
        steps(20, () => time),
      ),
    ),
  };
  return rankWords(rankRows(writers([...times.keys()]), (name) => layers[name] ?? [])).join(" ");
};

test("the spread is the largest less the smallest rank at each step", () => {
  const [got] = spreadOf(
    [1, 4, 2].map((level, rank) =>
      ranked(
        rank,
        steps(5, (step) => level + step),
      ),
    ),
  );
  assert.deepEqual(got.mean, [3, 3, 3, 3, 3]);
});

test("a rank that has ended does not count afterwards, and one rank has no spread", () => {
  const [got] = spreadOf([
    ranked(
      0,
      steps(4, () => 1),
    ),
    ranked(
      1,
      steps(2, () => 3),
    ),
  ]);
  assert.deepEqual(
    [got.x, got.mean],
    [
      [0, 1],
      [2, 2],
    ],
  );
  assert.deepEqual(
    spreadOf([
      ranked(
        0,
        steps(4, () => 1),
      ),
    ]),
    [],
  );
});

test("a NaN or Inf of one rank is marked, also in buckets of others", () => {
  const bad = steps(40, (step) => (step === 3 ? NaN : step === 5 ? -Infinity : 2));
  const [got] = spreadOf([
    ranked(0, bad),
    compact(
      ranked(
        1,
        steps(40, () => 1),
      ),
      20,
    ),
  ]);
  assert.ok(got.nan.reduce((a, b) => a + b) > 0);
  assert.ok(got.ninf.reduce((a, b) => a + b) > 0);
});

test("attempts are not mixed", () => {
  const [newest, older] = spreadOf([
    ranked(
      0,
      steps(2, () => 1),
      2,
    ),
    ranked(
      1,
      steps(2, () => 2),
      2,
    ),
    ranked(
      0,
      steps(2, () => 1),
      1,
    ),
    ranked(
      1,
      steps(2, () => 9),
      1,
    ),
  ]);
  assert.deepEqual([newest.attempt, newest.mean[0], older.mean[0]], [2, 1, 8]);
});

test("the slowest rank is named, with how much slower it is", () => {
  assert.equal(
    words([0.2, 0.5, 0.25]),
    "Rank 1 is the slowest: 500 ms per step, 2.50x the fastest (rank 0, 200 ms). The spread is 300 ms.",
  );
});

test("equal times don't rule out a straggler; a wait for data names it", () => {
  assert.match(words([0.2, 0.201]), /^All ranks take about the same time per step, 201 ms\. In synchronous/);
  assert.match(words([0.2, 0.201], [0.001, 0.1]), /Rank 1 waits longest for data, 100 ms per step/);
});

test("a rank that is behind is named with its step", () => {
  assert.match(words([0.2, 0.2, 0.2], [], [20, 12, 20]), /Rank 1 is behind: step 11 of 19\.$/);
});

test("rows are those of the newest attempt, with the newest loss as it is", () => {
  const layers = {
    step_time: timesOf([0.1, 0.2]).map((layer) => ({ ...layer, attempt: 2 })),
    loss: [ranked(1, [[3, NaN]], 2)],
  };
  const rows = rankRows([...writers([0, 1, 2]), ...writers([0, 1], 2)], (name) => layers[name] ?? []);
  assert.deepEqual(
    rows.map(({ rank, times, loss, last }) => [rank, times, loss, last]),
    [
      [0, 1, null, 19],
      [1, 2, NaN, 19],
    ],
  );
});

test("a rank without times is listed, and nothing is said of it", () => {
  assert.deepEqual(rankWords(rankRows(writers([0, 1]), () => [])), []);
  assert.equal(seconds(null), "–");
});
