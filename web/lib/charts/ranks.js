/** Many ranks in one panel: the range over all ranks as a band, one rank as the line. */

import { at, finite } from "./buckets.js";

/**
 * @param {Layer[]} layers
 * @returns {number[]} ranks that reported, ascending
 */
export const ranksOf = (layers) => [...new Set(layers.map((layer) => layer.rank))].sort((a, b) => a - b);

/**
 * Return the rank that the reader chose, or null for "band", "each" and no choice.
 *
 * @param {string | undefined} choice
 */
export const rankIn = (choice) => (choice && /^\d+$/.test(choice) ? Number(choice) : null);

/**
 * Order by newest attempt, then `rank` first: charts show the first layer as the line.
 *
 * @param {Layer[]} layers
 * @param {number | null} rank
 * @returns {Layer[]}
 */
export function leading(layers, rank) {
  if (rank === null || !layers.some((layer) => layer.rank === rank)) return layers;
  return [...layers].sort(
    (a, b) => b.attempt - a.attempt || Number(b.rank === rank) - Number(a.rank === rank) || a.rank - b.rank,
  );
}

/**
 * Return the minimum and maximum over all layers in each of `count` slots of the window, as one layer.
 *
 * @param {Layer[]} layers of one attempt
 * @param {[number, number]} range
 * @param {number} count
 * @returns {Layer | null} null if there are fewer than two ranks
 */
export function rankRange(layers, [from, to], count) {
  if (layers.length < 2) return null;
  const width = (to - from) / count;
  const low = new Array(count + 2).fill(Infinity);
  const high = new Array(count + 2).fill(-Infinity);
  for (const layer of layers) {
    for (let i = Math.max(0, at(layer.x, from)); i < layer.x.length && layer.x[i] <= to + width; i++) {
      if (!finite(layer, i)) continue;
      const slot = Math.min(count + 1, Math.max(0, Math.floor((layer.x[i] - from) / width) + 1));
      low[slot] = Math.min(low[slot], layer.min[i]);
      high[slot] = Math.max(high[slot], layer.max[i]);
    }
  }
  return filled(layers[0].attempt, low, high, from, width);
}

/**
 * @param {number} attempt
 * @param {number[]} low
 * @param {number[]} high
 * @param {number} from
 * @param {number} width
 * @returns {Layer}
 */
function filled(attempt, low, high, from, width) {
  const slots = low.map((_, slot) => slot).filter((slot) => low[slot] <= high[slot]);
  const none = slots.map(() => 0);
  const x = slots.map((slot) => from + (slot - 0.5) * width);
  const min = slots.map((slot) => low[slot]);
  const max = slots.map((slot) => high[slot]);
  return {
    attempt,
    rank: -1,
    x,
    x1: x,
    min,
    max,
    mean: min,
    last: min,
    n: slots.map(() => 1),
    nan: none,
    pinf: none,
    ninf: none,
    t: none,
  };
}
