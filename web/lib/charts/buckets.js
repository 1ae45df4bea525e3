/** Buckets that lose no extremes: minimum, maximum and the counts of NaN and Inf survive every merge. */

/**
 * @param {number} attempt
 * @param {number} rank
 * @returns {Layer}
 */
export const emptyLayer = (attempt, rank) => ({
  attempt,
  rank,
  x: [],
  x1: [],
  min: [],
  max: [],
  mean: [],
  last: [],
  n: [],
  nan: [],
  pinf: [],
  ninf: [],
  t: [],
});

/**
 * Return the index of the last item at or below `x` in ascending `xs`; -1 if none.
 *
 * @param {ArrayLike<number>} xs
 * @param {number} x
 */
export function at(xs, x) {
  let low = -1;
  let high = xs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * Return the number of finite values in bucket `i`.
 *
 * @param {Layer} layer
 * @param {number} i
 */
export const finite = (layer, i) => layer.n[i] - layer.nan[i] - layer.pinf[i] - layer.ninf[i];

/**
 * Insert a record as a bucket of one, ordered by step, and return its index.
 *
 * @param {Layer} layer
 * @param {number} step
 * @param {number} value
 * @param {number} t
 */
export function insertRecord(layer, step, value, t) {
  const place = at(layer.x, step) + 1;
  const good = Number.isFinite(value) ? value : NaN;
  const columns = /** @type {[number[], number][]} */ ([
    [layer.x, step],
    [layer.x1, step],
    [layer.min, good],
    [layer.max, good],
    [layer.mean, good],
    [layer.last, value],
    [layer.n, 1],
    [layer.nan, Number(Number.isNaN(value))],
    [layer.pinf, Number(value === Infinity)],
    [layer.ninf, Number(value === -Infinity)],
    [layer.t, t],
  ]);
  for (const [column, item] of columns) {
    if (place === column.length) column.push(item);
    else column.splice(place, 0, item);
  }
  return place;
}

/**
 * Append bucket `i` of `from` to `to` as a separate bucket.
 *
 * @param {Layer} to
 * @param {Layer} from
 * @param {number} i
 */
export function pushBucket(to, from, i) {
  for (const key of /** @type {const} */ ([
    "x",
    "x1",
    "min",
    "max",
    "mean",
    "last",
    "n",
    "nan",
    "pinf",
    "ninf",
    "t",
  ])) {
    to[key].push(from[key][i]);
  }
}

/**
 * Merge bucket `i` of `from` into the last bucket of `to`.
 *
 * @param {Layer} to
 * @param {Layer} from
 * @param {number} i
 */
function joinBucket(to, from, i) {
  if (!from.n[i]) return; // a pause that is narrower than the bucket
  const k = to.x.length - 1;
  const a = finite(to, k);
  const b = finite(from, i);
  to.x1[k] = Math.max(to.x1[k], from.x1[i]);
  to.min[k] = a && b ? Math.min(to.min[k], from.min[i]) : b ? from.min[i] : to.min[k];
  to.max[k] = a && b ? Math.max(to.max[k], from.max[i]) : b ? from.max[i] : to.max[k];
  to.mean[k] = a && b ? (to.mean[k] * a + from.mean[i] * b) / (a + b) : b ? from.mean[i] : to.mean[k];
  to.last[k] = from.last[i];
  to.t[k] = from.t[i];
  for (const key of /** @type {const} */ (["n", "nan", "pinf", "ninf"])) to[key][k] += from[key][i];
}

/**
 * Return `layer` with about `count` buckets over [from, to], plus one on each side so that lines reach the
 * edges.
 *
 * @param {Layer} layer
 * @param {number} from
 * @param {number} to
 * @param {number} count
 * @returns {Layer}
 */
export function thin(layer, from, to, count) {
  const out = emptyLayer(layer.attempt, layer.rank);
  const start = Math.max(0, at(layer.x, from));
  const stop = Math.min(layer.x.length - 1, at(layer.x, to) + 1);
  const width = Math.max((to - from) / count, Number.MIN_VALUE);
  let open = -Infinity;
  for (let i = start; i <= stop; i++) {
    const slot = Math.floor((layer.x[i] - from) / width);
    if (slot === open) joinBucket(out, layer, i);
    else pushBucket(out, layer, i);
    open = slot;
  }
  return out;
}

/**
 * Limit the memory of a layer: above `limit` buckets, merge the older half in pairs. This lowers the
 * resolution but drops no values.
 *
 * @param {Layer} layer
 * @param {number} limit
 * @returns {Layer}
 */
export function compact(layer, limit) {
  const size = layer.x.length;
  if (size <= limit) return layer;
  const out = emptyLayer(layer.attempt, layer.rank);
  const half = Math.floor(size / 4) * 2;
  for (let i = 0; i < size; i++) {
    if (i < half && i % 2) joinBucket(out, layer, i);
    else pushBucket(out, layer, i);
  }
  return out;
}
