/** The correlation of ranks, which says whether one number rises with another. */

/**
 * Return the rank of each value, from 1; equal ones have the mean of their ranks.
 *
 * @param {number[]} values
 */
export function ranks(values) {
  const compare = (/** @type {number} */ a, /** @type {number} */ b) => (a < b ? -1 : a > b ? 1 : 0);
  const order = values.map((_, i) => i).sort((i, j) => compare(values[i], values[j]));
  const out = new Array(values.length).fill(0);
  for (let i = 0; i < order.length;) {
    let j = i;
    while (j + 1 < order.length && values[order[j + 1]] === values[order[i]]) j++;
    for (let k = i; k <= j; k++) out[order[k]] = (i + j) / 2 + 1;
    i = j + 1;
  }
  return out;
}

/**
 * Return the correlation of the ranks (C. Spearman 1904); null if one of both is constant.
 *
 * @param {number[]} a
 * @param {number[]} b
 */
export function spearman(a, b) {
  const [x, y] = [a, b].map(ranks).map(centered);
  const dot = (/** @type {number[]} */ u, /** @type {number[]} */ v) =>
    u.reduce((sum, value, i) => sum + value * v[i], 0);
  const size = Math.sqrt(dot(x, x) * dot(y, y));
  return size > 0 ? Math.max(-1, Math.min(1, dot(x, y) / size)) : null;
}

/**
 * Return the values without their mean.
 *
 * @param {number[]} values
 */
export function centered(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.map((value) => value - mean);
}
