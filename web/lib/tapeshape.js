/** Geometry of the tape: the whole run in one strip, in a box of 1000 x 40. */

import { thin } from "./buckets.js";
import { stretches } from "./series.js";

const TOP = 5;
const DEEP = 30;

/** The range of a series over the whole run as one path; log where it is all positive and spread wide. @param {Layer[]} layers @param {number} first @param {number} end @returns {string} */
export function tapePath(layers, first, end) {
  const parts = stretches(layers).filter((part) => !part.faint).map((part) => ({ ...part, layer: thin(part.layer, first, end, 500) }));
  const points = parts.flatMap(({ layer, from, to }) => layer.x.map((x, i) => ({ x: (x + layer.x1[i]) / 2, at: x, low: layer.min[i], high: layer.max[i], from, to })))
    .filter((p) => Number.isFinite(p.low) && p.at >= p.from && p.at <= p.to).sort((a, b) => a.x - b.x);
  if (!points.length) return "";
  const low = Math.min(...points.map((p) => p.low)), high = Math.max(...points.map((p) => p.high)), log = low > 0 && high / low > 20;
  const f = (/** @type {number} */ v) => (log ? Math.log(v) : v), span = f(high) - f(low) || 1;
  const X = (/** @type {number} */ x) => (((x - first) / Math.max(1, end - first)) * 1000).toFixed(1);
  const Y = (/** @type {number} */ v, /** @type {number} */ lift) => (TOP + DEEP * (1 - (f(v) - f(low)) / span) + lift).toFixed(1);
  const up = points.map((p) => `${X(p.x)} ${Y(p.high, -0.5)}`), down = points.map((p) => `${X(p.x)} ${Y(p.low, 0.5)}`).reverse();
  return `M${up.join("L")}L${down.join("L")}Z`;
}
