/**
 * Axes with fixed ticks and rounded ends, so that the scale of a live chart doesn't change with every record.
 */

import { raised, short } from "../format.js";

/**
 * Return the smallest of 1, 2, 5 x 10^k that is at least `rough`.
 *
 * @param {number} rough
 */
export function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = rough / power;
  return (unit <= 1.0000001 ? 1 : unit <= 2.0000001 ? 2 : unit <= 5.0000001 ? 5 : 10) * power;
}

/**
 * 0.30000000000000004 becomes 0.3.
 *
 * @param {number} v
 */
const tidy = (v) => Number(v.toPrecision(12)) + 0;

/**
 * @param {number} low
 * @param {number} high
 * @param {number} step multiples of step within the range
 */
function multiples(low, high, step) {
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) out.push(tidy(k * step));
  return out;
}

/**
 * Return ticks within a range that is not rounded.
 *
 * @param {[number, number]} range
 * @returns {import("./timeticks.js").Ticks}
 */
export function linearTicks([low, high]) {
  const step = niceStep((high - low) / 6);
  const values = multiples(low, high, step);
  return { values, labels: values.map((v) => tickLabel(v, step)) };
}

/** Beyond these values the ends of an axis, or the distance between them, are not exact or not finite. */
const LEAST = 1e-300;
const MOST = 2e307;

/** @param {number} v */
const withinMost = (v) => Math.max(-MOST, Math.min(MOST, v));

/**
 * A constant series is drawn flat: the axis spans at least 5 % of the value.
 *
 * @param {number} low
 * @param {number} high
 * @returns {[number, number]}
 */
function open(low, high) {
  const share = Math.max(Math.abs(low), Math.abs(high)) * 0.05;
  const least = share < LEAST ? 1 : share;
  const lack = Math.max(0, least - (high - low));
  return [low - lack / 2, high + lack / 2];
}

/**
 * @param {number} low
 * @param {number} high smallest and largest visible finite value
 * @param {{ zero?: boolean }} [o] zero: start at 0 if all values are positive
 * @returns {AxisPlan}
 */
export function linearAxis(low, high, o = {}) {
  if (!(low <= high)) [low, high] = [0, 1];
  [low, high] = [withinMost(low), withinMost(high)];
  const [bottom, b] = open(low, high);
  const fromZero = low >= 0 && (o.zero || bottom < 0 || low < high * 0.4);
  const a = fromZero ? 0 : bottom;
  const step = niceStep((b - a) / 4);
  const range = /** @type {[number, number]} */ ([
    tidy(Math.floor(a / step + 1e-9) * step),
    tidy(Math.ceil(b / step - 1e-9) * step),
  ]);
  const ticks = multiples(range[0], range[1], step);
  return { log: false, range, ticks, labels: ticks.map((v) => tickLabel(v, step)) };
}

/**
 * Enough significant figures to distinguish two ticks, plus one, because `short` drops one when it writes an
 * exponent.
 *
 * @param {number} v
 * @param {number} step
 */
function tickLabel(v, step) {
  if (v === 0) return "0";
  const digits = Math.max(1, Math.min(6, Math.ceil(Math.log10(Math.abs(v) / step) + 1.001)));
  return short(Number(v.toPrecision(digits)), digits + 1);
}

/**
 * Powers of ten, with numbers between them if there are few decades. The range is in log10, as plotly
 * expects.
 *
 * @param {number} low
 * @param {number} high smallest and largest visible positive value
 * @returns {AxisPlan}
 */
export function logAxis(low, high) {
  if (!(low > 0 && low <= high)) [low, high] = [0.1, 10];
  let a = Math.log10(low);
  let b = Math.log10(high);
  const fine = b - a <= 0.5 ? FINEST : b - a <= 1.6 ? FINE : null;
  [a, b] = fine
    ? [floorNice(a, fine), ceilNice(b, fine)]
    : [Math.floor(a * 2 - 0.05) / 2, Math.ceil(b * 2 + 0.05) / 2];
  const ticks = decades(a, b, fine);
  return { log: true, range: [a, b], ticks, labels: ticks.map((v) => short(v, 3)) };
}

/** Return ticks within a decade if there are few decades. */
const FINE = [1, 2, 5];
const FINEST = [1, 1.5, 2, 3, 4, 5, 7];

/**
 * @param {number} p log10
 * @param {number[]} fine
 */
const floorNice = (p, fine) =>
  Math.floor(p) + Math.log10(Math.max(...fine.filter((m) => Math.log10(m) <= p - Math.floor(p) + 1e-9)));
/**
 * @param {number} p log10
 * @param {number[]} fine
 */
const ceilNice = (p, fine) =>
  Math.floor(p) +
  Math.log10(Math.min(...[...fine, 10].filter((m) => Math.log10(m) >= p - Math.floor(p) - 1e-9)));

/**
 * @param {number} a
 * @param {number} b
 * @param {number[] | null} fine null: whole decades, at most about six
 */
function decades(a, b, fine) {
  const every = fine ? 1 : Math.max(1, Math.ceil((b - a) / 5));
  const out = [];
  for (let k = Math.floor(a); k <= Math.ceil(b); k++) {
    if (k % every) continue;
    for (const m of fine ?? [1]) {
      if (k + Math.log10(m) >= a - 1e-9 && k + Math.log10(m) <= b + 1e-9) out.push(Number(`${m}e${k}`));
    }
  }
  return out;
}

/**
 * Powers of two, labeled 2⁰, 2⁴ …: the axis of the loss scale.
 *
 * @param {number} low
 * @param {number} high
 * @returns {AxisPlan}
 */
export function log2Axis(low, high) {
  if (!(low > 0 && low <= high)) [low, high] = [1, 65536];
  const a = Math.floor(Math.log2(low)) - 1;
  const b = Math.ceil(Math.log2(high)) + 1;
  const every = [1, 2, 4, 8, 16, 32, 64, 128, 256].find((n) => (b - a) / n <= 5) ?? 512;
  const ticks = [];
  for (let k = Math.ceil(a / every) * every; k <= b; k += every) ticks.push(k);
  const to10 = Math.log10(2);
  return {
    log: true,
    range: [a * to10, b * to10],
    ticks: ticks.map((k) => 2 ** k),
    labels: ticks.map((k) => `2${raised(k)}`),
  };
}

/**
 * Space above the data for the marks, as a share of the axis.
 *
 * @param {AxisPlan} plan
 * @param {number} top
 * @param {number} bottom
 * @returns {AxisPlan}
 */
export function withRail(plan, top, bottom) {
  const [a, b] = plan.range;
  const span = (b - a) / (1 - top - bottom);
  return { ...plan, range: [a - bottom * span, b + top * span] };
}

/**
 * End an axis exactly at the limits of the reader.
 *
 * @param {AxisPlan} plan
 * @param {number | null} low a value, above zero if the axis is logarithmic
 * @param {number | null} high
 * @returns {AxisPlan}
 */
export function limitAxis(plan, low, high) {
  if (low === null && high === null) return plan;
  const ends = plan.range.map((end, i) => {
    const limit = [low, high][i];
    return limit === null ? end : plan.log ? Math.log10(limit) : limit;
  });
  const range = /** @type {[number, number]} */ (ends);
  const [a, b] = plan.log ? ends.map((end) => 10 ** end) : ends;
  const slack = (b - a) * 1e-9;
  const kept = plan.ticks
    .map((_, i) => i)
    .filter((i) => plan.ticks[i] >= a - slack && plan.ticks[i] <= b + slack);
  if (kept.length > 1) {
    return { ...plan, range, ticks: kept.map((i) => plan.ticks[i]), labels: kept.map((i) => plan.labels[i]) };
  }
  const step = niceStep((b - a) / 4);
  const ticks = multiples(a, b, step);
  return { ...plan, range, ticks, labels: ticks.map((v) => tickLabel(v, step)) };
}

/** If the positive values spread over more than this factor, a linear axis hides too much. */
const SPREAD_TO_LOG = 100;
const SPREAD_TO_LINEAR = 40;

/**
 * Return whether an automatic axis is logarithmic. The thresholds differ by direction, so that it doesn't
 * switch back and forth.
 *
 * @param {number} low
 * @param {number} high
 * @param {boolean} was
 */
export const prefersLog = (low, high, was) =>
  low > 0 && high / low > (was ? SPREAD_TO_LINEAR : SPREAD_TO_LOG);
