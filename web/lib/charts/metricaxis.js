/**
 * A metric as x axis: each value is placed at the last known value of that metric, of the same attempt and
 * rank, at or before its step.
 */

import { num } from "../format.js";
import { linearTicks } from "./axis.js";
import { at, finite } from "./buckets.js";
import { reordered } from "./reordered.js";

/**
 * @typedef {import("./timeaxis.js").Timeline} Timeline
 * @typedef {{ step: number, x: number }} Place
 */

/** Space at both ends of the axis, as a share of what is shown. */
const MARGIN = 0.02;

/**
 * @param {string} name of the metric
 * @param {Layer[][]} sets its layers: those of the window, if any, before those of the whole run
 * @returns {Timeline}
 */
export function metricAxis(name, sets) {
  const known = byAttempt(sets);
  const valueAt = (/** @type {number} */ step, attempt = Infinity, rank = 0) =>
    valueOf(known, step, attempt, rank);
  const toX = (/** @type {number} */ step) => valueAt(step);
  const places = placesOf(sets, toX);
  const ordered = [...places].sort((a, b) => a.x - b.x || a.step - b.step);
  const xs = ordered.map((place) => place.x);
  return {
    kind: "metric",
    title: name,
    toX,
    toStep: (x) => nearest(ordered, xs, x),
    least: () => xs.find((x) => x > 0) ?? NaN,
    extent: (from, to) => extentOf(places, from, to, toX),
    steps: (range) => stepsIn(places, range),
    project: (layer) => placed(layer, valueAt),
    ticks: linearTicks,
    without: `without ${name}`,
    words: (step) => (Number.isFinite(toX(step)) ? `${name} ${num(toX(step))}` : `no ${name} yet`),
  };
}

/**
 * Return the layers of each attempt, newest first; of each set, lowest rank first.
 *
 * @param {Layer[][]} sets
 * @returns {{ attempt: number, sets: Layer[][] }[]}
 */
function byAttempt(sets) {
  const filled = sets.map((layers) => layers.filter((layer) => layer.x.length));
  const attempts = [...new Set(filled.flat().map((layer) => layer.attempt))].sort((a, b) => b - a);
  const of = (/** @type {Layer[]} */ layers, /** @type {number} */ attempt) =>
    layers.filter((layer) => layer.attempt === attempt).sort((a, b) => a.rank - b.rank);
  return attempts.map((attempt) => ({
    attempt,
    sets: filled.map((layers) => of(layers, attempt)).filter((ranks) => ranks.length),
  }));
}

/**
 * Return the metric at a step: of this attempt, or if it has none yet, of an older one. A rank that does not
 * report the metric has that of the lowest rank.
 *
 * @param {ReturnType<typeof byAttempt>} known
 * @param {number} step
 * @param {number} attempt
 * @param {number} rank
 * @returns {number} NaN if it is unknown or not finite there
 */
function valueOf(known, step, attempt, rank) {
  for (const each of known) {
    if (each.attempt > attempt) continue;
    for (const ranks of each.sets) {
      const layer = ranks.find((one) => one.rank === rank) ?? ranks[0];
      const i = at(layer.x, step);
      if (i >= 0) return within(layer, i, step);
    }
  }
  return NaN;
}

/**
 * Return the value at a step of bucket `i`. Within a bucket of several values it is between those before and
 * at its end, and within its range.
 *
 * @param {Layer} layer
 * @param {number} i
 * @param {number} step
 */
function within(layer, i, step) {
  const last = Number.isFinite(layer.last[i]) ? layer.last[i] : NaN;
  if (layer.n[i] === 1 || step >= layer.x1[i] || layer.x1[i] <= layer.x[i]) return last;
  if (!finite(layer, i)) return NaN;
  const end = Number.isNaN(last) ? layer.mean[i] : last;
  const before = i ? layer.last[i - 1] : NaN;
  const start = Number.isFinite(before) ? before : 2 * layer.mean[i] - end;
  const share = (step - layer.x[i]) / (layer.x1[i] - layer.x[i]);
  return Math.min(layer.max[i], Math.max(layer.min[i], start + share * (end - start)));
}

/**
 * Return where the metric is known, in order of steps: the ends of its buckets.
 *
 * @param {Layer[][]} sets
 * @param {(step: number) => number} toX
 * @returns {Place[]}
 */
function placesOf(sets, toX) {
  const steps = new Set(sets.flatMap((layers) => layers.flatMap(({ x, x1 }) => [...x, ...x1])));
  return [...steps]
    .sort((a, b) => a - b)
    .map((step) => ({ step, x: toX(step) }))
    .filter(({ x }) => Number.isFinite(x));
}

/**
 * @param {Place[]} ordered by x
 * @param {number[]} xs
 * @param {number} x
 */
function nearest(ordered, xs, x) {
  if (!xs.length) return NaN;
  let i = Math.max(0, at(xs, x));
  if (i + 1 < xs.length && xs[i + 1] - x < x - xs[i]) i++;
  while (i && xs[i - 1] === xs[i]) i--;
  return ordered[i].step;
}

/**
 * @param {Place[]} places
 * @param {number} from
 * @param {number} to
 * @param {(step: number) => number} toX
 * @returns {[number, number]}
 */
function extentOf(places, from, to, toX) {
  let low = Infinity;
  let high = -Infinity;
  const ends = [from, to].map((step) => ({ step, x: toX(step) })).filter(({ x }) => Number.isFinite(x));
  for (const { step, x } of [...places, ...ends]) {
    if (step < from || step > to) continue;
    low = Math.min(low, x);
    high = Math.max(high, x);
  }
  return low <= high ? [low, high] : [NaN, NaN];
}

/**
 * Return the steps between which the metric is within a range.
 *
 * @param {Place[]} places
 * @param {[number, number]} range
 * @returns {[number, number]} infinite at an end where the whole run is in the range
 */
function stepsIn(places, [a, b]) {
  const inside = places.map(({ x }) => x >= a && x <= b);
  const first = inside.indexOf(true);
  const last = inside.lastIndexOf(true);
  if (first < 0) {
    const below = places.filter(({ x }) => x < a);
    const { step = 0 } = below[below.length - 1] ?? {};
    return [step, places.find((place) => place.step > step)?.step ?? Infinity];
  }
  return [
    first === 0 ? -Infinity : places[first].step,
    last === places.length - 1 ? Infinity : places[last + 1].step,
  ];
}

/**
 * Return `layer` with the metric in place of steps, in order. Values without a finite one are left out and
 * counted.
 *
 * @param {Layer} layer
 * @param {(step: number, attempt: number, rank: number) => number} valueAt
 * @returns {Layer}
 */
function placed(layer, valueAt) {
  const { attempt, rank } = layer;
  const x = layer.x.map((step, i) => {
    const ends = [step, layer.x1[i]].map((each) => valueAt(each, attempt, rank)).filter(Number.isFinite);
    return ends.length ? (ends[0] + ends[ends.length - 1]) / 2 : NaN;
  });
  return reordered(layer, x);
}

/**
 * Return a range with space at both ends.
 *
 * @param {[number, number]} range
 * @returns {[number, number]}
 */
export function padded([low, high]) {
  if (!(low <= high)) return [0, 1];
  const room = (high - low) * MARGIN || Math.abs(low) * 0.05 || 0.5;
  return [low - room, high + room];
}
