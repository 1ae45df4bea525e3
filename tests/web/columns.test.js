import assert from "node:assert/strict";
import { test } from "node:test";
import { COLUMNS, columnsOf, secondsLeft, tracks, USUAL } from "../../web/lib/runs/columns.js";
import { rowOf } from "./layers.js";

test("the name column is always shown, and columns keep the page's order", () => {
  assert.deepEqual(
    columnsOf(["seen", "loss", "gone"]).map((column) => column.id),
    ["name", "loss", "seen"],
  );
  assert.ok(USUAL.every((id) => COLUMNS.some((column) => column.id === id)));
});

test("the grid has a track for each column, the checkbox and the buttons", () => {
  assert.equal(
    tracks(columnsOf(["loss"]))
      .replace(/var\([^)]*\)/g, "v")
      .replace(/minmax\([^)]*\)/g, "m")
      .split(" ").length,
    4,
  );
});

test("time left is shown only if length and throughput are known", () => {
  const row = rowOf({ planned_steps: 100, last_step: 49, steps_per_s: 5 });
  assert.equal(secondsLeft(row), 10);
  for (const change of [
    { planned_steps: null },
    { steps_per_s: null },
    { state: "stalled" },
    { last_step: null },
  ]) {
    assert.equal(secondsLeft({ ...row, ...change }), null);
  }
  assert.equal(secondsLeft({ ...row, last_step: 500 }), 0);
});

test("every column can sort a row without values", () => {
  const bare = rowOf({
    last: {},
    severities: {},
    last_step: null,
    steps_per_s: null,
    planned_steps: null,
    skipped: 0,
    nonfinite: 0,
    attempt: 1,
    last_seen_ms: null,
  });
  for (const column of COLUMNS) assert.notEqual(column.by(bare), undefined, column.id);
});
