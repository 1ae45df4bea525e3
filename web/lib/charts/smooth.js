/** Exponential moving average with bias correction; non-finite values stay gaps and don't affect it. */

/**
 * Applied to the drawn points, so that smoothing looks the same at every zoom: s = w s + (1 - w) y, divided
 * by 1 - w^k after k points.
 *
 * @param {number[]} y
 * @param {number} weight 0 (none) up to, but below, 1
 * @returns {number[]}
 */
export function smooth(y, weight) {
  if (!(weight > 0)) return y;
  let sum = 0;
  let share = 1;
  return y.map((value) => {
    if (!Number.isFinite(value)) return value;
    sum = weight * sum + (1 - weight) * value;
    share *= weight;
    return sum / (1 - share);
  });
}
