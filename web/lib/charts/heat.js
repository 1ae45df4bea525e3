/** Gradient norms by layer and step: decoding, shades on a log scale, and the first non-finite value. */

import { unpack } from "../exact.js";

/**
 * @typedef {{ run: string, series: string, layers: string[], parameters: number[], steps: number[], attempts:
 *   number[], ranks: number[], why: string[], source: string[], norms: Packed & { shape:
 *   string }, all_series: string[], truncated: boolean }} LayersAnswer
 * @typedef {"none" | "zero" | "nan" | "inf" | "value"} CellKind none: no gradient
 */

/**
 * Decode a packed matrix, row by row.
 *
 * @param {LayersAnswer["norms"]} packed
 * @returns {{ rows: number, columns: number, values: Float64Array }}
 */
export function unpackMatrix({ dtype, bdata, shape }) {
  const [rows = 0, columns = 0] = shape.split(",").map(Number);
  const values = unpack({ dtype, bdata });
  if (values.length !== rows * columns) {
    throw new RangeError(`matrix: expected ${rows * columns} values, got ${values.length}`);
  }
  return { rows, columns, values };
}

/**
 * @param {number} v
 * @returns {CellKind}
 */
export function cellKind(v) {
  if (Number.isNaN(v)) return "nan";
  if (v === Infinity) return "inf";
  if (v < 0) return "none";
  return v === 0 ? "zero" : "value";
}

/**
 * Return how dark to draw a value: 0 for the smallest positive value, 1 for the largest, by logarithm.
 *
 * @param {Float64Array} values
 * @returns {(v: number) => number}
 */
export function shade(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const v of values) {
    if (v > 0 && v < Infinity) {
      low = Math.min(low, v);
      high = Math.max(high, v);
    }
  }
  const span = Math.log(high) - Math.log(low);
  return (v) => (span > 0 ? Math.min(1, Math.max(0, (Math.log(v) - Math.log(low)) / span)) : 0.5);
}

/**
 * Return the first column with a non-finite value, and its layers.
 *
 * @param {{ rows: number, columns: number, values: Float64Array }} matrix
 * @returns {{ column: number, rows: number[] } | null}
 */
export function firstFault({ rows, columns, values }) {
  for (let column = 0; column < columns; column++) {
    const found = [];
    for (let row = 0; row < rows; row++) {
      if (["nan", "inf"].includes(cellKind(values[row * columns + column]))) found.push(row);
    }
    if (found.length) return { column, rows: found };
  }
  return null;
}
