import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bestOf,
  factorsOf,
  influences,
  influencesCsv,
  metricOf,
  shareOf,
} from "../../web/lib/charts/sweep.js";
import { ranks, spearman } from "../../web/lib/charts/rankcorrelation.js";
import { layerOf } from "./layers.js";

const run = (config, value, id = "r") => ({ id, name: id, state: "finished", config, value });
const layer = (values, attempt = 1, first = 0) =>
  layerOf(
    values.map((value, i) => [first + i, value]),
    attempt,
  );

test("the metric of a run is its last value, NaN included, or its extreme, without non-finite ones", () => {
  const layers = [layer([3, 1, 2, NaN])];
  assert.deepEqual(
    ["last", "min", "max"].map((goal) => metricOf(layers, goal)),
    [NaN, 1, 3],
  );
  assert.deepEqual(metricOf([layer([NaN])], "min"), NaN);
  assert.equal(metricOf([], "min"), null);
});

test("values that a later attempt replaced don't count", () => {
  const layers = [layer([5, 4], 2, 2), layer([9, 8, 0, 0], 1)];
  assert.equal(metricOf(layers, "min"), 4);
  assert.equal(metricOf(layers, "max"), 9);
});

test("the best run has a finite value", () => {
  const runs = [run({}, NaN, "a"), run({}, 2, "b"), run({}, 1, "c"), run({}, null, "d")];
  assert.equal(bestOf(runs, "last").id, "c");
  assert.equal(bestOf(runs, "max").id, "b");
  assert.equal(bestOf([run({}, NaN)], "min"), null);
});

test("the value in the best run is that of the best run without trouble", () => {
  const broken = { ...run({ lr: 9 }, 0), trouble: "failed" };
  const [row] = influences([broken, run({ lr: 1 }, 1), run({ lr: 2 }, 2)], "last");
  assert.equal(row.best, "1");
});

test("only keys that differ are factors; numbers over a wide range are compared by their logarithm", () => {
  const found = factorsOf([run({ lr: 1e-4, opt: "sgd", n: 1 }, 1), run({ lr: 0.1, opt: "adam", n: 1 }, 1)]);
  assert.deepEqual(
    found.map(({ key, numbers, log }) => [key, numbers, log]),
    [
      ["lr", [1e-4, 0.1], true],
      ["opt", null, false],
    ],
  );
});

test("equal values share a rank, and so do infinite ones", () => {
  assert.deepEqual(ranks([5, Infinity, 5, 1, Infinity]), [2.5, 4.5, 2.5, 1, 4.5]);
});

test("the rank correlation is that of a known example", () => {
  // Hours of television and IQ, the example of Wikipedia's article on the coefficient: -29/165.
  const iq = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110];
  const hours = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17];
  assert.ok(Math.abs(spearman(iq, hours) + 29 / 165) < 1e-12);
});

test("the rank correlation is ±1 for every monotone relation, and null without one", () => {
  const x = [1, 2, 3, 4, 5];
  assert.equal(spearman(x, x.map(Math.exp)), 1);
  assert.equal(
    spearman(
      x,
      x.map((value) => -(value ** 3)),
    ),
    -1,
  );
  assert.equal(spearman(x, [7, 7, 7, 7, 7]), null);
});

test("a setting that decides explains everything, an irrelevant one explains nothing", () => {
  assert.equal(shareOf(["a", "a", "b", "b"], [1, 1, 2, 2]), 1);
  assert.equal(shareOf(["a", "b", "a", "b"], [1, 1, 2, 2]), 0);
  assert.equal(shareOf(["a", "b", "c"], [1, 2, 3]), null);
});

test("random groups explain nothing on average", () => {
  let state = 3;
  const draw = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
  const shares = Array.from({ length: 200 }, () => {
    const values = Array.from({ length: 30 }, draw);
    return shareOf(
      values.map(() => String(Math.floor(draw() * 5))),
      values,
    );
  });
  assert.ok(shares.reduce((sum, share) => sum + share, 0) / 200 < 0.08);
});

test("diverged runs count as worst, and a run without the metric doesn't count", () => {
  const runs = [1, 2, 3, 4].map((lr) => run({ lr, seed: lr % 2 }, lr > 2 ? NaN : lr, `r${lr}`));
  const [first, second] = influences([...runs, run({ lr: 9, seed: 0 }, null)], "last");
  assert.deepEqual([second.key, first.key].sort(), ["lr", "seed"]);
  const lr = [first, second].find((row) => row.key === "lr");
  assert.equal(lr.n, 4);
  assert.ok(lr.rho > 0.9);
  assert.equal(lr.best, "1");
});

test("a setting with a value for each run is judged in bins", () => {
  const runs = Array.from({ length: 20 }, (_, i) => run({ lr: i / 100, seed: (i * 7) % 20 }, i));
  const found = influences(runs, "min");
  assert.deepEqual(
    found.map((row) => row.key),
    ["lr", "seed"],
  );
  assert.ok(found[0].share > 0.9 && found[1].share < 0.3);
});

test("the CSV quotes, leaves unknown values empty, and runs no formula", () => {
  const row = { key: '=a,"b', n: 3, values: 2, rho: -0.5, chance: null, share: null, best: undefined };
  assert.equal(
    influencesCsv([row]),
    'setting,importance,rank_correlation,chance,runs,values,best\r\n"\'=a,""b",,-0.5,,3,2,\r\n',
  );
});
