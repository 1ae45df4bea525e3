/** The value axis: what is visible, without outliers and within limits if the reader chose so. */

import { limitAxis, linearAxis, log2Axis, logAxis, prefersLog } from "./axis.js";
import { finite } from "./buckets.js";

/**
 * @typedef {{ low: number, high: number, positive: number }} Extent positive: the smallest positive value
 * @typedef {import("./picture.js").Drawing} Drawing
 */

/**
 * Values more than three interquartile ranges beyond the quartiles are outliers: "far out" in J. W. Tukey,
 * Exploratory Data Analysis (1977).
 */
const FAR_OUT = 3;

/**
 * Return the smallest positive, smallest and largest finite value of the buckets in the window.
 *
 * @param {Layer[]} layers
 * @param {[number, number]} range
 * @returns {Extent}
 */
function extent(layers, range) {
  let low = Infinity;
  let high = -Infinity;
  let positive = Infinity;
  eachVisible(layers, range, (layer, i) => {
    low = Math.min(low, layer.min[i]);
    high = Math.max(high, layer.max[i]);
    for (const value of [layer.min[i], layer.mean[i], layer.max[i]]) {
      if (value > 0) positive = Math.min(positive, value);
    }
  });
  return { low, high, positive };
}

/**
 * @param {Layer[]} layers
 * @param {[number, number]} range
 * @param {(layer: Layer, i: number) => void} found called for each bucket with finite values
 */
function eachVisible(layers, [from, to], found) {
  for (const layer of layers) {
    for (let i = 0; i < layer.x.length; i++) {
      if (finite(layer, i) && layer.x1[i] >= from && layer.x[i] <= to) found(layer, i);
    }
  }
}

/**
 * Return the extent without outliers.
 *
 * @param {Layer[]} layers
 * @param {[number, number]} range
 * @param {boolean} log compare powers, and only positive values
 * @returns {Extent}
 */
export function inliers(layers, range, log) {
  /** @type {number[]} */
  const all = [];
  eachVisible(layers, range, (layer, i) => all.push(layer.min[i], layer.max[i]));
  const values = Float64Array.from(log ? all.filter((value) => value > 0) : all).sort();
  if (!values.length) return extent(layers, range);
  const scale = log ? Math.log10 : Number;
  const [q1, q3] = [0.25, 0.75].map((share) => scale(values[Math.round(share * (values.length - 1))]));
  const reach = FAR_OUT * (q3 - q1);
  const kept = values.filter((value) => scale(value) >= q1 - reach && scale(value) <= q3 + reach);
  return {
    low: kept[0],
    high: kept[kept.length - 1],
    positive: kept.find((value) => value > 0) ?? Infinity,
  };
}

/**
 * @param {Drawing} drawing
 * @param {Layer[]} layers
 * @param {[number, number]} range
 * @param {boolean} wasLog
 * @returns {AxisPlan}
 */
export function axisPlan(drawing, layers, range, wasLog) {
  const [min, max] = drawing.limits ?? [null, null];
  const found = drawing.ignore ? inliers(layers, range, false) : extent(layers, range);
  const log =
    drawing.axis === "auto"
      ? prefersLog(min ?? found.low, max ?? found.high, wasLog)
      : drawing.axis !== "linear";
  const { low, high, positive } = log && drawing.ignore ? inliers(layers, range, true) : found;
  // A log axis has no place for a limit at or below zero.
  const [least, most] = log
    ? [min, max].map((limit) => (limit !== null && limit > 0 ? limit : null))
    : [min, max];
  const [a, b] = apart(least ?? (log ? positive : low), most ?? high, least !== null);
  const plan =
    drawing.axis === "log2" ? log2Axis(a, b) : log ? logAxis(a, b) : linearAxis(a, b, { zero: drawing.zero });
  return limitAxis(plan, least, most);
}

/**
 * A limit beyond all values leaves nothing to show, so the other end moves past it.
 *
 * @param {number} low
 * @param {number} high
 * @param {boolean} keepsLow the lower end is a limit
 * @returns {[number, number]}
 */
function apart(low, high, keepsLow) {
  if (low < high || !Number.isFinite(low) || !Number.isFinite(high)) return [low, high];
  if (low === high) return [low, high];
  return keepsLow ? [low, low + (Math.abs(low) || 1)] : [high - (Math.abs(high) / 2 || 1), high];
}
