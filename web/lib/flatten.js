/**
 * Flattens nested settings: {"amp": {"dtype": "fp16"}} becomes "amp.dtype" = "fp16". Limited, for configs of
 * any size.
 */

import { int, short } from "./format.js";

const MOST = 400;
/** Numbers of more letters are shortened where there is little room. */
const LONG = 9;

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

/**
 * Return the number that a formatted setting is, or NaN.
 *
 * @param {string | undefined} text
 */
export const numberOf = (text) => (text ? Number(text.replaceAll("\u202f", "").replace("\u2212", "-")) : NaN);

/**
 * Shorten numbers with many digits to four significant figures.
 *
 * @param {(string | undefined)[]} values a setting's, as text; they stay as they are if two different ones
 *   would look the same
 * @returns {(string | undefined)[]}
 */
export function shortened(values) {
  const texts = values.map((text) => {
    const number = text && text.length > LONG ? Number(text) : NaN;
    return Number.isFinite(number) ? short(number) : text;
  });
  return new Set(texts).size === new Set(values).size ? texts : values;
}
