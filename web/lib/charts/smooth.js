/**
 * Kinds of smoothing. They apply to the drawn points, so that smoothing looks the same at every zoom.
 * Non-finite values stay gaps: no average takes a value from beyond a gap that is not before it.
 */

/**
 * @typedef {"ema" | "time" | "gaussian" | "mean"} SmoothKind
 * @typedef {{ kind: SmoothKind, amount: number }} Smoothing amount: 0 for none; a weight below 1 for "ema"
 *   and "time"; points for "gaussian" (standard deviation) and "mean" (width)
 */

/** @type {readonly SmoothKind[]} */
export const SMOOTH_KINDS = ["ema", "time", "gaussian", "mean"];
/** With more smoothing than this, nothing of the run remains visible. */
export const SMOOTHEST = 0.99;
export const MOST_POINTS = 200;
/** A Gaussian is cut where its weight is below 1.2 % of the middle. */
const SIGMAS = 3;

/**
 * Return whether the amount is a weight; else it is a number of points.
 *
 * @param {SmoothKind} kind
 */
export const isWeight = (kind) => kind === "ema" || kind === "time";

/**
 * Return an amount within the limits of its kind.
 *
 * @param {SmoothKind} kind
 * @param {number} amount
 */
export function amountWithin(kind, amount) {
  if (!(amount > 0)) return 0;
  return isWeight(kind) ? Math.min(SMOOTHEST, amount) : Math.min(MOST_POINTS, Math.max(1, amount));
}

/**
 * @param {number[]} y
 * @param {number | Smoothing} how a number is the weight of "ema"
 * @param {number[]} [x] of each value, ascending; without it, values are one apart
 * @returns {number[]}
 */
export function smooth(y, how, x = y.map((_, i) => i)) {
  const { kind, amount } =
    typeof how === "number" ? { kind: /** @type {const} */ ("ema"), amount: how } : how;
  if (!(amount > 0)) return y;
  if (kind === "ema") return average(y, () => amount);
  const unit = spacing(x);
  if (kind === "time") {
    let before = NaN;
    return average(y, (i) => {
      const distance = Number.isNaN(before) ? 1 : (x[i] - before) / unit;
      before = x[i];
      return amount ** distance;
    });
  }
  return kind === "gaussian"
    ? around(y, x, SIGMAS * amount * unit, (distance) => Math.exp(-((distance / (amount * unit)) ** 2) / 2))
    : around(y, x, (amount / 2) * unit, () => 1);
}

/**
 * Return the mean distance between two points.
 *
 * @param {number[]} x
 */
const spacing = (x) => (x[x.length - 1] - x[0]) / (x.length - 1) || 1;

/**
 * Exponential moving average with bias correction: the mean of all values so far, each weighted by `w` to the
 * power of its distance. Values at one place have equal weights.
 *
 * @param {number[]} y
 * @param {(i: number) => number} weightOf of what came before; called only for finite values
 */
function average(y, weightOf) {
  let mean = 0;
  let weights = 0;
  return y.map((value, i) => {
    if (!Number.isFinite(value)) return value;
    weights = weights * weightOf(i) + 1;
    mean += (value - mean) / weights;
    return mean;
  });
}

/**
 * Weighted mean of the values at most `reach` away on both sides, up to the nearest non-finite value.
 *
 * @param {number[]} y
 * @param {number[]} x
 * @param {number} reach
 * @param {(distance: number) => number} weightOf
 */
function around(y, x, reach, weightOf) {
  return y.map((value, i) => {
    if (!Number.isFinite(value)) return value;
    let sum = value;
    let weights = 1;
    for (const way of [-1, 1]) {
      for (let k = i + way; Number.isFinite(y[k]) && Math.abs(x[k] - x[i]) <= reach; k += way) {
        const weight = weightOf(x[k] - x[i]);
        sum += weight * y[k];
        weights += weight;
      }
    }
    return sum / weights;
  });
}
