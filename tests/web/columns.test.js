import assert from "node:assert/strict";
import { test } from "node:test";
import {
  columnOf,
  COLUMNS,
  columnsOf,
  leastWidth,
  meansOf,
  metricsOf,
  moved,
  readColumns,
  secondsLeft,
  tracks,
  USUAL,
  writeColumns,
} from "../../web/lib/runs/columns.js";
import { rowOf } from "./layers.js";

test("the name column is always shown, and columns keep the chosen order", () => {
  assert.deepEqual(
    columnsOf(["seen", "loss", "gone"]).map((column) => column.id),
    ["name", "seen", "loss"],
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
  for (const id of ["last:x", "min:x", "config:x"]) {
    assert.equal(
      columnOf(id).by(bare, () => undefined),
      null,
    );
  }
});

test("any metric or setting is a column", () => {
  const metrics = { "val,loss~1": { last: "NaN", min: 0.25, max: 2, n: 9, step: 8, nonfinite: 1 } };
  const row = rowOf({ metrics });
  const by = (id) => columnOf(id).by(row, (run, key) => (run === "r" && key === "net.depth" ? 3 : undefined));
  assert.deepEqual(["last:val,loss~1", "min:val,loss~1", "max:val,loss~1", "config:net.depth"].map(by), [
    Infinity,
    0.25,
    2,
    3,
  ]);
  assert.deepEqual(
    ["min:", "mean:x", "toString:x", "nope"].map((id) => columnOf(id)),
    [null, null, null, null],
  );
  assert.deepEqual(metricsOf(["loss", "min:a:b", "max:a:b", "last:c", "config:lr"]), ["a:b", "c"]);
});

test("the mean of the last values of a metric is a column, of at most 1,000", () => {
  const metrics = { "a:b": { last: 3, min: 1, max: 3, n: 9, step: 8, nonfinite: 0, means: { 10: 2.5 } } };
  assert.equal(columnOf("mean10:a:b").by(rowOf({ metrics })), 2.5);
  assert.equal(columnOf("mean20:a:b").by(rowOf({ metrics })), null);
  assert.equal(columnOf("mean10:a:b").title, "a:b mean 10");
  assert.deepEqual(
    ["mean0:x", "mean1001:x", "mean:x", "mean10:"].map((id) => columnOf(id)),
    [null, null, null, null],
  );
  assert.deepEqual(meansOf(["mean10:a:b", "last:a", "mean20:a:b"]), ["10:a:b", "20:a:b"]);
});

test("a metric without a finite value sorts after every number, as its newest value does", () => {
  const row = rowOf({
    metrics: { x: { last: "-Infinity", min: null, max: null, n: 1, step: 0, nonfinite: 1 } },
  });
  assert.equal(columnOf("min:x").by(row), Infinity);
});

test("columns and widths in the address survive any name", () => {
  const columns = ["name", "last:a,b~50%2C", "config:x%", "min:a~b"];
  const widths = { "last:a,b~50%2C": 120, name: 300 };
  assert.deepEqual(readColumns(writeColumns(columns, widths)), { columns, widths });
  assert.deepEqual(readColumns("gone,loss~9999,loss,step~x"), {
    columns: ["loss", "step"],
    widths: { loss: 1200 },
  });
  assert.equal(readColumns(Array.from({ length: 99 }, (_, i) => `last:${i}`).join()).columns.length, 40);
});

test("a resized column has its width, and the least width of the table is that of its columns", () => {
  const columns = columnsOf(["loss", "last:x"]);
  assert.match(tracks(columns, { loss: 90 }), / 90px 7rem 3\.2rem$/);
  assert.equal(
    leastWidth(columns, { loss: 90 }),
    "calc(1.2rem + var(--name-min, 14rem) + 90px + 7rem + 3.2rem + 4 * var(--s-4) + 2 * var(--s-5))",
  );
});

test("a column moves before another one or to the end", () => {
  assert.deepEqual(moved(["a", "b", "c"], "c", "a"), ["c", "a", "b"]);
  assert.deepEqual(moved(["a", "b", "c"], "a", null), ["b", "c", "a"]);
  assert.deepEqual(moved(["a", "b"], "a", "gone"), ["a", "b"]);
  assert.deepEqual(moved(["a", "b"], "a", "a"), ["a", "b"]);
});
