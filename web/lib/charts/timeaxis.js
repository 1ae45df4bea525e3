/**
 * The x axis: steps, or the times of the records. Windows, marks and links always use steps; a timeline
 * converts between the two.
 */

import { clock, int, span } from "../format.js";
import { at } from "./buckets.js";
import { stretches } from "./series.js";
import { spanTicks, wallTicks } from "./timeticks.js";

/**
 * @typedef {{ kind: import("../views/runview.js").XKind, toX: (step: number) => number, toStep: (x: number)
 *   => number, project: (layer: Layer) => Layer, ticks: (range: [number, number]) => { values: number[],
 *   labels: string[] } | null, label: (step: number) => string }} Timeline
 */

/** @type {Timeline} */
export const STEPS = {
  kind: "step",
  toX: (step) => step,
  toStep: (x) => x,
  project: (layer) => layer,
  ticks: () => null,
  label: (step) => `step ${int(step)}`,
};

/**
 * Steps and their times, ascending, of what charts show first: the newest attempt from its first step, older
 * ones before it.
 *
 * @param {Layer[][]} sets coarse and finer layers of one series
 * @returns {{ steps: number[], times: number[] }}
 */
export function moments(sets) {
  const points = sets.flatMap((layers) =>
    stretches(layers)
      .filter((part) => !part.faint)
      .flatMap(({ layer, from, to }) =>
        layer.x
          .map((step, i) => /** @type {[number, number]} */ ([step, layer.t[i]]))
          .filter(([step]) => step >= from && step <= to),
      ),
  );
  const steps = /** @type {number[]} */ ([]);
  const times = /** @type {number[]} */ ([]);
  let latest = -Infinity;
  for (const [step, time] of points.sort((a, b) => a[0] - b[0])) {
    if (!(time > latest) || step === steps[steps.length - 1]) continue;
    steps.push(step);
    times.push((latest = time));
  }
  return { steps, times };
}

/**
 * @param {number[]} xs ascending
 * @param {number[]} ys ascending
 * @param {number} x extrapolated at the mean rate beyond the ends
 */
function interpolate(xs, ys, x) {
  if (!xs.length) return x;
  if (xs.length === 1) return ys[0] + (x - xs[0]);
  const end = xs.length - 1;
  const rate = (ys[end] - ys[0]) / (xs[end] - xs[0]);
  if (x <= xs[0]) return ys[0] + (x - xs[0]) * rate;
  if (x >= xs[end]) return ys[end] + (x - xs[end]) * rate;
  const i = at(xs, x);
  return ys[i] + ((x - xs[i]) / (xs[i + 1] - xs[i])) * (ys[i + 1] - ys[i]);
}

/**
 * @param {"relative" | "wall"} kind relative: since the first step, in ms
 * @param {{ steps: number[], times: number[] }} clock
 * @returns {Timeline}
 */
export function timeline(kind, { steps, times }) {
  const origin = kind === "relative" ? (times[0] ?? 0) : 0;
  const xs = times.map((time) => time - origin);
  const toX = (/** @type {number} */ step) => interpolate(steps, xs, step);
  return {
    kind,
    toX,
    toStep: (x) => interpolate(xs, steps, x),
    project: (layer) => byTime(layer, origin),
    ticks: kind === "relative" ? spanTicks : wallTicks,
    label: (step) => `step ${int(step)} · ${kind === "relative" ? span(toX(step) / 1000) : clock(toX(step))}`,
  };
}

/**
 * Return `layer` with times in place of steps, in order.
 *
 * @param {Layer} layer
 * @param {number} origin
 * @returns {Layer}
 */
export function byTime(layer, origin) {
  const ascending = layer.t.every((time, i) => i === 0 || time >= layer.t[i - 1]);
  const order = layer.t.map((_, i) => i);
  if (!ascending) order.sort((a, b) => layer.t[a] - layer.t[b]);
  const pick = (/** @type {number[]} */ column) => (ascending ? column : order.map((i) => column[i]));
  const x = pick(layer.t).map((time) => time - origin);
  return {
    ...layer,
    x,
    x1: x,
    min: pick(layer.min),
    max: pick(layer.max),
    mean: pick(layer.mean),
    last: pick(layer.last),
    n: pick(layer.n),
    nan: pick(layer.nan),
    pinf: pick(layer.pinf),
    ninf: pick(layer.ninf),
    t: pick(layer.t),
  };
}
