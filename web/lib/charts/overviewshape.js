/** Geometry of the overview strip: the whole run in a box of 1000 x 40. */

import { finite, thin } from "./buckets.js";
import { stretches } from "./series.js";

const TOP = 5;
const DEEP = 30;

/** @typedef {{ x: number, low: number, high: number, solid: boolean }} Point */

/**
 * The range of a series over the whole run as closed shapes, broken at gaps; log if all values are positive
 * and widely spread.
 *
 * @param {Layer[]} layers
 * @param {number} first
 * @param {number} end
 * @returns {string}
 */
export function overviewPath(layers, first, end) {
  const points = pointsOf(layers, first, end);
  const solid = points.filter((p) => p.solid);
  if (!solid.length) return "";
  const low = Math.min(...solid.map((p) => p.low));
  const high = Math.max(...solid.map((p) => p.high));
  const log = low > 0 && high / low > 20;
  const f = (/** @type {number} */ v) => (log ? Math.log(v) : v);
  const span = f(high) - f(low) || 1;
  const X = (/** @type {number} */ x) => (((x - first) / Math.max(1, end - first)) * 1000).toFixed(1);
  const Y = (/** @type {number} */ v, /** @type {number} */ lift) =>
    (TOP + DEEP * (1 - (f(v) - f(low)) / span) + lift).toFixed(1);
  return unbroken(points)
    .map((part) => {
      const up = part.map((p) => `${X(p.x)} ${Y(p.high, -0.5)}`);
      const down = part.map((p) => `${X(p.x)} ${Y(p.low, 0.5)}`).reverse();
      return `M${up.join("L")}L${down.join("L")}Z`;
    })
    .join("");
}

/**
 * @param {Layer[]} layers
 * @param {number} first
 * @param {number} end
 * @returns {Point[]} in order of step
 */
function pointsOf(layers, first, end) {
  const parts = stretches(layers).filter((part) => !part.faint);
  return parts
    .flatMap(({ layer, from, to }) => {
      const thinned = thin(layer, first, end, 500);
      return thinned.x
        .map((x, i) => ({
          at: x,
          x: (x + thinned.x1[i]) / 2,
          low: thinned.min[i],
          high: thinned.max[i],
          solid: finite(thinned, i) > 0,
        }))
        .filter((p) => p.at >= from && p.at <= to);
    })
    .sort((a, b) => a.x - b.x);
}

/**
 * @param {Point[]} points
 * @returns {Point[][]}
 */
function unbroken(points) {
  /** @type {Point[][]} */
  const out = [];
  points.forEach((point, i) => {
    if (!point.solid) return;
    if (i && points[i - 1].solid) out[out.length - 1].push(point);
    else out.push([point]);
  });
  return out;
}
