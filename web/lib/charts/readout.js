/** The value in a panel's head: what a series was at a step. */

import { num, scale, word } from "../format.js";
import { finite } from "./buckets.js";

/** @typedef {{ value: string, soft: string, bad: string, step: number | null }} Readout */

/** @type {Readout} */
export const NOTHING = { value: "–", soft: "", bad: "", step: null };

/**
 * Describe the non-finite values of bucket `i`: "NaN", or "3 NaN · +Inf".
 *
 * @param {Layer} layer
 * @param {number} i
 */
export function badWords(layer, i) {
  const kinds = /** @type {[number, string][]} */ ([
    [layer.nan[i], "NaN"],
    [layer.pinf[i], "+Inf"],
    [layer.ninf[i], "−Inf"],
  ]);
  return kinds
    .filter(([count]) => count > 0)
    .map(([count, text]) => (count > 1 ? `${count} ${text}` : text))
    .join(" · ");
}

/**
 * For a varying value: its mean over the bucket and the range.
 *
 * @param {Layer} layer
 * @param {number} i
 * @returns {Readout}
 */
export function meanReadout(layer, i) {
  const step = layer.x[i];
  const bad = badWords(layer, i);
  if (layer.n[i] === 1) return { value: bad || num(layer.last[i]), soft: "", bad: "", step };
  if (!finite(layer, i)) return { value: bad, soft: "", bad: "", step };
  return { value: num(layer.mean[i]), soft: `${num(layer.min[i], 3)} … ${num(layer.max[i], 3)}`, bad, step };
}

/**
 * For a varying value without a step: the newest value itself, not the mean of the newest bucket.
 *
 * @param {Layer} layer
 * @param {number} i
 * @returns {Readout}
 */
function newestReadout(layer, i) {
  const isSent = Number.isFinite(layer.last[i]) || badWords(layer, i) !== "";
  return isSent ? heldReadout(layer, i) : meanReadout(layer, i);
}

/**
 * Return the value of a series at step `x`; the newest if x is null.
 *
 * @param {{ read: (layer: Layer, i: number) => Readout }} kind
 * @param {{ layer: Layer, i: number }} found
 * @param {number | null} x
 */
export const readoutAt = (kind, { layer, i }, x) =>
  (x === null && kind.read === meanReadout ? newestReadout : kind.read)(layer, i);

/**
 * For a value that is held until it changes: the newest.
 *
 * @param {Layer} layer
 * @param {number} i
 * @returns {Readout}
 */
export function heldReadout(layer, i) {
  return { value: word(layer.last[i]) || num(layer.last[i]), soft: "", bad: "", step: layer.x[i] };
}

/**
 * For a loss scale: its power of two, then the number.
 *
 * @param {Layer} layer
 * @param {number} i
 * @returns {Readout}
 */
export function scaleReadout(layer, i) {
  const [value, soft] = scale(layer.last[i]);
  return { value, soft, bad: "", step: layer.x[i] };
}
