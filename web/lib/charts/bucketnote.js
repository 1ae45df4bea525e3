/** Says in a chart that its points are buckets of several values: a mean, and a band of their range. */

import { int } from "../format.js";

/**
 * Return the most values that one point of these layers stands for.
 *
 * @param {Layer[]} layers as they are drawn
 */
export const mostIn = (layers) =>
  layers.reduce((most, { n }) => n.reduce((one, count) => Math.max(one, count), most), 0);

/**
 * @typedef {{ most?: number, steps: boolean, means?: unknown[] }} Bucketed means: points are means of runs
 */

/**
 * Return the note in the head of a chart; "" at full resolution.
 *
 * @param {Bucketed} picture
 */
export const bucketNote = ({ most = 0, steps, means }) =>
  most > 1 && !means ? `${steps ? "last" : "mean"} of up to ${int(most)} values, band: min–max` : "";

/**
 * Return the same as a sentence; "" at full resolution.
 *
 * @param {Bucketed} picture
 */
export const bucketSentence = ({ most = 0, steps, means }) =>
  most > 1 && !means
    ? `Each point is the ${steps ? "last" : "mean"} of up to ${int(most)} values; ` +
      "the band spans their minimum and maximum."
    : "";
