import assert from "node:assert/strict";
import { test } from "node:test";
import { byStep } from "../../web/lib/charts/recordrows.js";

const record = (step, values, rank = 0) => ({ step, attempt: 1, rank, values });
const columns = [{ of: (values) => values.a }, { of: (values) => values.b }];

test("metrics that were logged by themselves at a step share a row, of one rank", () => {
  const rows = byStep([record(1, { a: 1 }), record(1, { b: 2 }), record(1, { a: 5 }, 1)], columns);
  assert.deepEqual(
    rows.map(({ rank, cells }) => [rank, ...cells]),
    [
      [0, 1, 2],
      [1, 5, undefined],
    ],
  );
});

test("a record without any of the columns has no row; NaN is a value", () => {
  const rows = byStep([record(1, { c: 1 }), record(2, { a: "NaN" })], columns);
  assert.deepEqual(
    rows.map(({ step }) => step),
    [2],
  );
});
