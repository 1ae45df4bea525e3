/** Pauses of a run: times without a record, which lines on an axis of times don't cross. */

import { at, emptyLayer, pushBucket } from "./buckets.js";

/**
 * @typedef {[number, number]} Pause its last record before it and its first after it, in ms
 */

/** A shorter pause is none. */
const SHORTEST_MS = 60_000;
/** Nor is one of fewer than this many usual intervals, or of fewer widths of the bucket that ends it. */
const INTERVALS = 20;
const WIDTHS = 2;

/**
 * Return the pauses of a run, in order. Where a finer set has records, its pauses count.
 *
 * @param {Layer[][]} sets coarse and finer layers of one series
 * @returns {Pause[]}
 */
export const pausesIn = (sets) =>
  sets.reduce((found, layers) => {
    const records = inOrder(layers);
    if (records.length < 2) return found;
    const [first, last] = [records[0].t, records[records.length - 1].t];
    return [...found.filter(([from, to]) => to <= first || from >= last), ...pausesOf(records)].sort(
      (a, b) => a[0] - b[0],
    );
  }, /** @type {Pause[]} */ ([]));

/**
 * Return times and numbers of records of one rank of each attempt, in order of time.
 *
 * @param {Layer[]} layers
 * @returns {{ t: number, n: number }[]}
 */
function inOrder(layers) {
  const main = new Map([...layers].sort((a, b) => b.rank - a.rank).map((layer) => [layer.attempt, layer]));
  return [...main.values()]
    .flatMap((layer) => layer.t.map((t, i) => ({ t, n: layer.n[i] })))
    .sort((a, b) => a.t - b.t);
}

/**
 * @param {{ t: number, n: number }[]} records
 * @returns {Pause[]}
 */
function pausesOf(records) {
  const between = records.slice(1).map(({ t, n }, i) => {
    const count = Math.max(1, n, records[i].n);
    return { from: records[i].t, to: t, count, each: (t - records[i].t) / count };
  });
  const sorted = between.map(({ each }) => each).sort((a, b) => a - b);
  const usual = sorted[sorted.length >> 1];
  return between
    .filter(({ from, to, count }) => {
      const silent = to - from - count * usual;
      return silent > Math.max(SHORTEST_MS, INTERVALS * usual, WIDTHS * count * usual);
    })
    .map(({ from, to }) => [from, to]);
}

/**
 * Return `layer` with an empty bucket in each pause after its first record, at which its line ends.
 *
 * @param {Layer} layer by time
 * @param {Pause[]} pauses
 * @param {number} origin of its positions
 * @returns {Layer}
 */
export function interrupted(layer, pauses, origin) {
  const after = pauses.map(([from]) => at(layer.x, from - origin));
  if (!after.some((i) => i >= 0)) return layer;
  const out = emptyLayer(layer.attempt, layer.rank);
  let k = after.findIndex((i) => i >= 0);
  for (let i = 0; i < layer.x.length; i++) {
    pushBucket(out, layer, i);
    for (; k < pauses.length && after[k] === i; k++) {
      const middle = (pauses[k][0] + pauses[k][1]) / 2;
      pushBucket(out, silence(middle - origin, middle), 0);
    }
  }
  return out;
}

/**
 * @param {number} x
 * @param {number} t
 * @returns {Layer}
 */
const silence = (x, t) => ({
  ...emptyLayer(0, 0),
  x: [x],
  x1: [x],
  ...{ min: [NaN], max: [NaN], mean: [NaN], last: [NaN] },
  ...{ n: [0], nan: [0], pinf: [0], ninf: [0] },
  t: [t],
});
