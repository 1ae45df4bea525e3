import assert from "node:assert/strict";
import { test } from "node:test";
import {
  dashOf,
  freeSlot,
  inkOf,
  MOST_RUNS,
  readCompare,
  withRun,
  writeCompare,
} from "../../web/lib/views/compareview.js";

test("the address holds runs, colors, baseline and appearance", () => {
  const view = {
    ...readCompare(""),
    runs: [
      { id: "a/b c", slot: 3, hidden: true },
      { id: "d", slot: 0, hidden: false },
    ],
    base: "d",
    x: "tokens",
    smooth: 0.5,
    difference: true,
    series: ["act/x,y"],
    axes: { "a:b": "log" },
    from: 1,
    to: 2.5,
    at: 2,
    full: "loss",
    same: true,
    group: ["config.lr", "tags"],
    band: "range",
    metric: "val/loss",
    goal: "min",
  };
  assert.deepEqual(readCompare(writeCompare(view)), view);
  assert.equal(writeCompare(readCompare("")), "");
});

test("a run keeps its color when others are added or removed", () => {
  const three = ["a", "b", "c"].reduce(withRun, []);
  const without = three.filter((run) => run.id !== "a");
  const again = withRun(without, "d");
  assert.deepEqual(
    readCompare(writeCompare({ ...readCompare(""), runs: without })).runs.map((run) => run.slot),
    [1, 2],
  );
  assert.deepEqual(
    again.map((run) => [run.id, run.slot]),
    [
      ["b", 1],
      ["c", 2],
      ["d", 0],
    ],
  );
});

test("sixty runs look different, and a comparison is limited", () => {
  const many = Array.from({ length: MOST_RUNS + 5 }, (_, i) => String(i)).reduce(withRun, []);
  assert.equal(many.length, MOST_RUNS);
  assert.equal(new Set(many.slice(0, 60).map((run) => inkOf(run.slot) + dashOf(run.slot, 60))).size, 60);
  assert.equal(freeSlot([{ id: "a", slot: 0, hidden: false }]), 1);
  assert.deepEqual(readCompare(writeCompare({ ...readCompare(""), runs: many })).runs, many);
});

test("an invalid address compares what it can", () => {
  const view = readCompare("?run=a&run=a&run=b&slots=5.5.x&base=zz&x=moon&from=3&to=1&axis=odd:loss");
  assert.deepEqual(
    view.runs.map((run) => [run.id, run.slot]),
    [
      ["a", 5],
      ["b", 0],
    ],
  );
  assert.deepEqual([view.base, view.x, view.from, view.axes], [null, "step", null, {}]);
});
