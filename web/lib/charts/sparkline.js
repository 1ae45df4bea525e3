/**
 * Geometry of a sparkline: a band that keeps every spike, a mean line, and a mark for each non-finite range.
 */

/**
 * @typedef {{ band: string, line: string, marks: { kind: "nan" | "pinf" | "ninf", x: number }[], onset:
 *   number | null }} SparkShape x in 0..1, paths in a box W x H
 */

export const W = 144;
export const H = 30;
const PAD = 3;
/** Marks closer than this many buckets are merged. */
const APART = 5;

/**
 * Finite buckets only, so min, max and mean exist.
 *
 * @param {Bucket} b
 * @returns {b is [number, number, number, number, number, number]}
 */
const solid = (b) => b !== null && b[0] !== null && b[1] !== null && b[2] !== null;

/**
 * Return whether to use a log axis: all positive, and spread by more than a factor of three.
 *
 * @param {Bucket[]} buckets
 */
export function spreads(buckets) {
  const kept = buckets.filter(solid);
  return (
    kept.length > 0 &&
    kept.every((b) => b[0] > 0) &&
    Math.max(...kept.map((b) => b[1])) > 3 * Math.min(...kept.map((b) => b[0]))
  );
}

/**
 * @param {Bucket[]} buckets
 * @param {boolean} log
 * @returns {(v: number) => number} value to y
 */
function valueToY(buckets, log) {
  const kept = buckets.filter(solid);
  const least = Math.min(...kept.map((b) => (b[0] > 0 ? b[0] : b[1] > 0 ? b[1] : Infinity)));
  const f = (/** @type {number} */ v) =>
    log ? Math.log10(Math.max(v, Number.isFinite(least) ? least : 1e-12)) : v;
  let low = Math.min(...kept.map((b) => f(b[0])));
  let high = Math.max(...kept.map((b) => f(b[1])));
  const lack = Math.max(0, (log ? 0.02 : Math.max(Math.abs(low), Math.abs(high)) * 0.02 || 1) - (high - low));
  low -= lack / 2;
  high += lack / 2;
  return (v) => PAD + (H - 2 * PAD) * (1 - (f(v) - low) / (high - low));
}

/**
 * @param {Spark} spark
 * @param {{ log?: boolean | "auto", onset?: number | null }} [o] onset: a step
 * @returns {SparkShape}
 */
export function sparkShape(spark, o = {}) {
  const { buckets, x0, x1 } = spark;
  const count = buckets.length;
  const y = valueToY(buckets, o.log === "auto" ? spreads(buckets) : Boolean(o.log));
  const X = (/** @type {number} */ i) => (((i + 0.5) / count) * W).toFixed(1);
  const share =
    o.onset === null || o.onset === undefined || x0 === null || x1 === null || x1 <= x0
      ? null
      : (o.onset - x0) / (x1 - x0);
  return {
    ...paths(buckets, X, y),
    marks: marksOf(buckets),
    onset: share === null || share < 0 || share > 1 ? null : share,
  };
}

/**
 * @param {Bucket[]} buckets
 * @param {(i: number) => string} X
 * @param {(v: number) => number} y
 */
function paths(buckets, X, y) {
  let band = "";
  let line = "";
  let up = "";
  let down = "";
  // A polygon across a stretch without finite values would look like values.
  const close = () => {
    if (up) band += `${up}${down}Z`;
    up = down = "";
  };
  buckets.forEach((b, i) => {
    if (b === null) return;
    if (!solid(b)) return close();
    line += `${up ? "L" : "M"}${X(i)} ${y(b[2]).toFixed(1)}`;
    up += `${up ? "L" : "M"}${X(i)} ${y(b[1]).toFixed(1)}`;
    down = `L${X(i)} ${y(b[0]).toFixed(1)}${down}`;
  });
  close();
  return { band, line };
}

/** @param {Bucket[]} buckets */
function marksOf(buckets) {
  /** @type {SparkShape["marks"]} */
  const marks = [];
  let last = -Infinity;
  buckets.forEach((b, i) => {
    const kind = !b ? "" : b[3] ? "nan" : b[4] ? "pinf" : b[5] ? "ninf" : "";
    if (!kind || i - last < APART) return;
    marks.push({ kind, x: (i + 0.5) / buckets.length });
    last = i;
  });
  return marks;
}
