/** The settings of a built-in rule in words: their names, and what they mean with their default and unit. */

import { short } from "../format.js";

/** Letters that are written as capitals within a name. */
const CAPITALS = /** @type {Record<string, string>} */ ({
  lr: "LR",
  nan: "NaN",
  db: "dB",
  s: "(s)",
  z: "(z)",
});

/**
 * "new_baseline_records" is "New baseline records".
 *
 * @param {string} name
 */
export function settingName(name) {
  const text = name
    .split("_")
    .map((word) => CAPITALS[word] ?? word)
    .join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * Describe a value with its unit; a relative one also in percent.
 *
 * @param {number | string} value
 * @param {string} unit
 */
export function settingValue(value, unit) {
  const text = typeof value === "number" ? short(value) : value;
  if (unit === "relative") return `${text} (${short(100 * Number(value), 3)}\u00a0%)`;
  return `${text} ${value === 1 ? singular(unit) : unit}`.trim();
}

/**
 * @param {{ value: number | string, unit: string, help: string }} setting
 * @returns {string} what the setting means, and its default
 */
export const settingHint = ({ value, unit, help }) =>
  `${help.replaceAll("_", " ")}. Default: ${settingValue(value, unit)}.`;

/**
 * Return "record" of "records" and "bin of 16 records" of "bins of 16 records".
 *
 * @param {string} unit
 */
const singular = (unit) => unit.replace(/^(?!classes|batches)([a-z]+[^s ])s\b/, "$1");
