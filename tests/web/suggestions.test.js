import assert from "node:assert/strict";
import { test } from "node:test";
import { matching, suggestionsOf } from "../../web/lib/runs/suggestions.js";

const KNOWN = suggestionsOf(
  [
    { name: "train/loss", runs: 2 },
    { name: "loss", runs: 1 },
  ],
  ["loss.name"],
);

test("names that begin with what is typed come first; all words must occur", () => {
  const names = (typed) => matching(KNOWN, typed).items.map(({ name }) => name);
  assert.deepEqual(names("LOSS"), ["loss", "train/loss", "config.loss.name"]);
  assert.deepEqual(names("loss train"), ["train/loss"]);
  assert.deepEqual(names("zzz"), []);
});

test("a metric can be three columns, a setting one", () => {
  assert.deepEqual(
    KNOWN.map(({ kinds }) => kinds.map(([id]) => id)),
    [
      ["last:train/loss", "min:train/loss", "max:train/loss"],
      ["last:loss", "min:loss", "max:loss"],
      ["config:loss.name"],
    ],
  );
});

test("a long list is cut, and what was left out is counted", () => {
  const many = suggestionsOf(
    [],
    Array.from({ length: 100 }, (_, i) => `k${i}`),
  );
  const { items, more } = matching(many, "k");
  assert.deepEqual([items.length, more], [30, 70]);
});
