/** Layers whose buckets are at other positions than their steps. */

/**
 * Return `layer` at other positions, in their order. What has none is left out and counted.
 *
 * @param {Layer} layer
 * @param {number[]} x NaN: none
 * @param {number[]} [x1]
 * @returns {Layer}
 */
export function reordered(layer, x, x1 = x) {
  const order = x.map((_, i) => i).filter((i) => Number.isFinite(x[i]));
  const ascending = order.every((i, k) => k === 0 || x[i] >= x[order[k - 1]]);
  if (ascending && order.length === x.length) return { ...layer, x, x1 };
  if (!ascending) order.sort((a, b) => x[a] - x[b]);
  const left = x.reduce((sum, value, i) => (Number.isFinite(value) ? sum : sum + layer.n[i]), 0);
  const pick = (/** @type {number[]} */ column) => order.map((i) => column[i]);
  return {
    ...layer,
    x: pick(x),
    x1: pick(x1),
    min: pick(layer.min),
    max: pick(layer.max),
    mean: pick(layer.mean),
    last: pick(layer.last),
    n: pick(layer.n),
    nan: pick(layer.nan),
    pinf: pick(layer.pinf),
    ninf: pick(layer.ninf),
    t: pick(layer.t),
    left: (layer.left ?? 0) + left,
  };
}
