import assert from "node:assert/strict";
import { test } from "node:test";
import { cellKind, firstFault, shade, unpackMatrix } from "../../web/lib/charts/heat.js";

/** A matrix as the API packs it. */
const packed = (values, rows, columns) => ({
  dtype: "f4",
  bdata: Buffer.from(Float32Array.from(values).buffer).toString("base64"),
  shape: `${rows},${columns}`,
});

test("a matrix is decoded row by row, including NaN and Inf", () => {
  const { rows, columns, values } = unpackMatrix(packed([1, NaN, 0.5, Infinity, -1, 0], 2, 3));
  assert.deepEqual([rows, columns, [...values]], [2, 3, [1, NaN, 0.5, Infinity, -1, 0]]);
  assert.deepEqual([...values].map(cellKind), ["value", "nan", "value", "inf", "none", "zero"]);
});

test("a truncated matrix is rejected with what was expected", () => {
  assert.throws(() => unpackMatrix(packed([1, 2, 3], 2, 2)), /expected 4 values, got 3/);
  assert.equal(unpackMatrix(packed([], 0, 0)).values.length, 0);
});

test("shades are logarithmic and ignore non-finite values", () => {
  const dark = shade(Float64Array.of(1e-3, 1, 1e3, NaN, Infinity, -1, 0));
  assert.deepEqual(
    [dark(1e-3), dark(1), dark(1e3)].map((v) => Math.round(v * 1e9) / 1e9),
    [0, 0.5, 1],
  );
  assert.equal(shade(Float64Array.of(2, 2))(2), 0.5);
});

test("the first non-finite step is found, with all its layers", () => {
  const matrix = unpackMatrix(packed([1, 1, NaN, 1, Infinity, NaN, 1, NaN, 1], 3, 3));
  assert.deepEqual(firstFault(matrix), { column: 1, rows: [1, 2] });
  assert.equal(firstFault(unpackMatrix(packed([1, 0, -1], 1, 3))), null);
});
