/**
 * Values beyond the ends of a value axis that has limits or ignores outliers: lines end there, and each such
 * value has a mark at the edge.
 */

import { int } from "../format.js";
import { finite } from "./buckets.js";

/**
 * @typedef {{ x: number, kind: "above" | "below", count: number, least?: boolean }} Clipped least: the count
 *   is a lower bound
 * @typedef {[number, number]} Ends smallest and largest value on the axis
 */

/**
 * @param {Layer} layer
 * @param {Ends} ends
 * @param {[number, number]} range
 * @param {boolean} log values at or below zero have marks of their own
 * @returns {Clipped[]}
 */
export function clippedOf(layer, [low, high], [from, to], log) {
  /** @type {Clipped[]} */
  const out = [];
  for (let i = 0; i < layer.x.length; i++) {
    if (!finite(layer, i) || layer.x1[i] < from || layer.x[i] > to) continue;
    const mark = { x: layer.x[i], count: 1, least: layer.n[i] > 1 };
    if (layer.max[i] > high) out.push({ ...mark, kind: "above" });
    if (layer.min[i] < low && !(log && layer.min[i] <= 0)) out.push({ ...mark, kind: "below" });
  }
  return out;
}

/**
 * Return the part of a line between the ends of the axis.
 *
 * @template {{ x: number[], y: number[] }} T
 * @param {T} line
 * @param {Ends} ends
 * @param {boolean} held each value is held until the next one
 * @param {boolean} log
 * @returns {T}
 */
export function cutLine(line, [low, high], held, log) {
  const scale = log ? Math.log10 : Number;
  const x = /** @type {number[]} */ ([]);
  const y = /** @type {number[]} */ ([]);
  line.y.forEach((value, i) => {
    const before = line.y[i - 1];
    const crossed = [low, high].filter((limit) => i > 0 && before < limit !== value < limit);
    for (const limit of Number.isFinite(before) && Number.isFinite(value) ? crossed : []) {
      const share = held ? 1 : (scale(limit) - scale(before)) / (scale(value) - scale(before));
      x.push(line.x[i - 1] + share * (line.x[i] - line.x[i - 1]));
      y.push(limit);
    }
    if (crossed.length > 1 && value < before) swapLast(x, y);
    x.push(line.x[i]);
    y.push(value >= low && value <= high ? value : NaN);
  });
  return { ...line, x, y };
}

/** @param {number[][]} columns whose last two items were found from low to high, but are passed downwards */
function swapLast(...columns) {
  for (const column of columns) column.push(...column.splice(-2).reverse());
}

/**
 * @template {{ x: number[], y: number[] }} T
 * @param {T} outline
 * @param {Ends} ends
 * @returns {T}
 */
export const cutOutline = (outline, [low, high]) => ({
  ...outline,
  y: outline.y.map((value) => Math.min(high, Math.max(low, value))),
});

/**
 * What the head of a chart says about its scale: "outliers ignored (3 beyond)".
 *
 * @param {import("./picture.js").Drawing} drawing
 * @param {Clipped[]} clipped
 */
export function scaleNote({ ignore, limits }, clipped) {
  const parts = [ignore ? "outliers ignored" : "", limits ? "limits set" : ""].filter(Boolean);
  const count = clipped.reduce((sum, mark) => sum + mark.count, 0);
  const least = clipped.some((mark) => mark.least) ? "≥ " : "";
  return parts.length ? parts.join(", ") + (count ? ` (${least}${int(count)} beyond)` : "") : "";
}
