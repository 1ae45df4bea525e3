/**
 * The x axis: steps, the times of the records, or a metric (metricaxis.js). Windows, marks and links always
 * use steps; a timeline converts between the two.
 */

import { clock, dotted, int, span } from "../format.js";
import { at } from "./buckets.js";
import { interrupted, pausesIn } from "./pauses.js";
import { reordered } from "./reordered.js";
import { stretches } from "./series.js";
import { spanTicks, wallTicks } from "./timeticks.js";

/**
 * extent: smallest and largest position from one step to another; steps: the reverse, infinite at an end
 * where the whole run is in the range; least: the smallest position above zero; without: what `project`
 * leaves out; title: what the axis shows; words: where a step is, "" if its number says it.
 *
 * @typedef {{
 *   kind: "step" | "relative" | "wall" | "metric",
 *   title: string,
 *   log?: boolean,
 *   toX: (step: number) => number,
 *   toStep: (x: number) => number,
 *   extent: (from: number, to: number) => [number, number],
 *   steps: (range: [number, number]) => [number, number],
 *   least: () => number,
 *   project: (layer: Layer) => Layer,
 *   without: string,
 *   words: (step: number) => string,
 *   ticks: (range: [number, number]) => import("./timeticks.js").Ticks | null,
 * }} Timeline
 * @typedef {{ steps: number[], times: number[], pauses?: Pause[] }} Clock
 * @typedef {import("./pauses.js").Pause} Pause
 */

/** @type {Timeline} */
export const STEPS = {
  kind: "step",
  title: "step",
  toX: (step) => step,
  toStep: (x) => x,
  extent: (from, to) => [from, to],
  steps: (range) => range,
  least: () => 1,
  project: (layer) => layer,
  ticks: () => null,
  without: "",
  words: () => "",
};

/**
 * Say where a step is, for the cross line.
 *
 * @param {Timeline} line
 * @param {number} step
 */
export const labelOf = (line, step) => dotted(`step ${int(step)}`, line.words(step));

/**
 * Steps and their times, ascending, of what charts show first: the newest attempt from its first step, older
 * ones before it.
 *
 * @param {Layer[][]} sets coarse and finer layers of one series
 * @returns {Clock & { pauses: Pause[] }}
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
  return { steps, times, pauses: pausesIn(sets) };
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
 * @param {Clock} clock
 * @returns {Timeline}
 */
export function timeline(kind, { steps, times, pauses = [] }) {
  const origin = kind === "relative" ? (times[0] ?? 0) : 0;
  const xs = times.map((time) => time - origin);
  const toX = (/** @type {number} */ step) => interpolate(steps, xs, step);
  const toStep = (/** @type {number} */ x) => interpolate(xs, steps, x);
  return {
    kind,
    title: kind === "relative" ? "time since the first step" : "time of day",
    toX,
    toStep,
    extent: (from, to) => [toX(from), toX(to)],
    steps: ([a, b]) => [toStep(a), toStep(b)],
    least: () => xs.find((x) => x > 0) ?? NaN,
    project: (layer) => interrupted(byTime(layer, origin), pauses, origin),
    ticks: kind === "relative" ? spanTicks : wallTicks,
    without: "",
    words: (step) => (kind === "relative" ? span(toX(step) / 1000) : clock(toX(step))),
  };
}

/**
 * Return `layer` with times in place of steps, in order.
 *
 * @param {Layer} layer
 * @param {number} origin
 * @returns {Layer}
 */
export const byTime = (layer, origin) =>
  reordered(
    layer,
    layer.t.map((time) => time - origin),
  );
