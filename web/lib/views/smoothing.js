/** The smoothing that the reader chose, as the address of the run page and of the comparison has it. */

import { amountWithin, SMOOTH_KINDS } from "../charts/smooth.js";

/**
 * @typedef {import("../charts/smooth.js").SmoothKind} SmoothKind
 * @typedef {{ smooth: number, smoothing: SmoothKind }} Smoothed smooth: the amount, 0 for none
 */

/** @type {Smoothed} */
export const NOT_SMOOTHED = { smooth: 0, smoothing: "ema" };

/**
 * @param {URLSearchParams} asked
 * @returns {Smoothed}
 */
export function readSmoothing(asked) {
  const smoothing = SMOOTH_KINDS.find((kind) => kind === asked.get("smoothing")) ?? "ema";
  return { smoothing, smooth: amountWithin(smoothing, Number(asked.get("smooth"))) };
}

/**
 * @param {Smoothed} chosen
 * @returns {[string, string][]}
 */
export const smoothingPairs = ({ smooth, smoothing }) =>
  smooth
    ? [
        ["smooth", String(smooth)],
        ...(smoothing === "ema" ? [] : [/** @type {[string, string]} */ (["smoothing", smoothing])]),
      ]
    : [];
