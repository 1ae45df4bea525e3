/**
 * Flattens nested settings: {"amp": {"dtype": "fp16"}} becomes "amp.dtype" = "fp16". Limited, for configs of
 * any size.
 */

import { int } from "./format.js";

const MOST = 400;

/**
 * @param {unknown} value
 * @param {string} [prefix]
 * @returns {[string, string][]}
 */
export function flatten(value, prefix = "") {
  /** @type {[string, string][]} */
  const out = [];
  walk(value, prefix, out);
  return out;
}

/**
 * @param {unknown} value
 * @param {string} path
 * @param {[string, string][]} out
 */
function walk(value, path, out) {
  if (out.length >= MOST) return;
  if (value && typeof value === "object" && !isPlainList(value)) {
    for (const [key, item] of Object.entries(value)) walk(item, path ? `${path}.${key}` : key, out);
  } else if (path) out.push([path, valueText(value)]);
}

/** @param {object} value */
const isPlainList = (value) =>
  Array.isArray(value) &&
  value.length <= 16 &&
  value.every((item) => item === null || typeof item !== "object");

/**
 * Format a setting without rounding.
 *
 * @param {unknown} value
 * @returns {string}
 */
export function valueText(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") {
    return Number.isInteger(value) && Math.abs(value) < 1e9 ? int(value) : String(value);
  }
  return Array.isArray(value) ? `[${value.map(valueText).join(", ")}]` : String(value);
}
