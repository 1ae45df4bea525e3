/** Parallel coordinates: an upright axis for each setting and for the metric; a run is a line through all. */

import { short, word } from "../format.js";
import { lowIsBest } from "./sweep.js";

/**
 * @typedef {import("./sweep.js").Outcome} Outcome
 * @typedef {import("./sweep.js").Factor} Factor
 * @typedef {{ at: number, text: string }} Tick
 * @typedef {{ key: string, metric: boolean, places: number[], texts: string[], ticks: Tick[] }} Axis places:
 *   of the runs, 0 is the lower end and 1 the upper; texts: their values
 */

/** Where runs without the setting or the metric are: below the axis. */
export const BELOW = -0.14;
/** Where runs are whose metric is NaN or infinite: above the axis. */
export const ABOVE = 1.14;
/** With more different values than this, an axis has only its ends and its middle as ticks. */
const MOST_TICKS = 7;
/** Positive metrics that span this factor have a logarithmic axis. */
const SPAN = 50;

/**
 * @param {Outcome[]} runs
 * @param {Factor[]} factors in the order of their axes
 * @param {string} metric
 * @returns {Axis[]}
 */
export function axesOf(runs, factors, metric) {
  const values = runs.map(({ value }) => (value !== null && Number.isFinite(value) ? value : null));
  const known = values.filter((value) => value !== null);
  const low = known.reduce((least, value) => Math.min(least, value), Infinity);
  const high = known.reduce((most, value) => Math.max(most, value), -Infinity);
  const scale = scaleOf(low, high, low > 0 && high / low >= SPAN);
  return [
    ...factors.map(axisOf),
    {
      key: metric,
      metric: true,
      places: runs.map(({ value }, i) => {
        if (value === null) return BELOW;
        return values[i] === null ? ABOVE : scale.place(/** @type {number} */ (values[i]));
      }),
      texts: runs.map(({ value }) => (value === null ? "no value" : short(value))),
      ticks: [
        ...(known.length ? scale.ticks : []),
        ...(runs.some(({ value }) => value !== null && word(value)) ? [{ at: ABOVE, text: "NaN, Inf" }] : []),
        ...(runs.some(({ value }) => value === null) ? [{ at: BELOW, text: "no value" }] : []),
      ],
    },
  ];
}

/**
 * @param {Factor} factor
 * @returns {Axis}
 */
function axisOf({ key, values, numbers, log }) {
  const texts = values.map((value) => value ?? "not set");
  const none = values.includes(undefined) ? [{ at: BELOW, text: "not set" }] : [];
  const known = [...new Set(values.filter((value) => value !== undefined))];
  if (numbers) {
    const set = numbers.filter((_, i) => values[i] !== undefined);
    const scale = scaleOf(Math.min(...set), Math.max(...set), log);
    const places = values.map((value, i) => (value === undefined ? BELOW : scale.place(numbers[i])));
    const each = [...new Set(set)].map((value) => ({ at: scale.place(value), text: short(value) }));
    return { key, metric: false, places, texts, ticks: [...(roomy(each) ? each : scale.ticks), ...none] };
  }
  known.sort(new Intl.Collator("en", { numeric: true }).compare);
  const place = (/** @type {string} */ value) =>
    known.length > 1 ? known.indexOf(value) / (known.length - 1) : 0.5;
  const every = Math.ceil(known.length / MOST_TICKS);
  return {
    key,
    metric: false,
    places: values.map((value) => (value === undefined ? BELOW : place(value))),
    texts,
    ticks: [
      ...known.filter((_, i) => i % every === 0).map((value) => ({ at: place(value), text: value })),
      ...none,
    ],
  };
}

/**
 * Return whether the ticks are few and not on top of each other.
 *
 * @param {Tick[]} ticks
 */
function roomy(ticks) {
  const places = ticks.map(({ at }) => at).sort((a, b) => a - b);
  return ticks.length <= MOST_TICKS && places.every((at, i) => !i || at - places[i - 1] > 0.08);
}

/**
 * @param {number} low
 * @param {number} high
 * @param {boolean} log
 */
function scaleOf(low, high, log) {
  const to = log ? Math.log : Number;
  const [a, b] = [to(low), to(high)];
  const place = (/** @type {number} */ value) => (b > a ? (to(value) - a) / (b - a) : 0.5);
  const middle = log ? Math.exp((a + b) / 2) : (a + b) / 2;
  const values = b > a ? [low, middle, high] : [low];
  return { place, ticks: values.map((value) => ({ at: place(value), text: short(value, 3) })) };
}

/**
 * Return for each run how near it is to the best: 0 the best, 1 the worst, by rank; null if its metric is not
 * finite.
 *
 * @param {Outcome[]} runs
 * @param {import("./sweep.js").Goal} goal
 * @returns {(number | null)[]}
 */
export function nearness(runs, goal) {
  const sign = lowIsBest(goal) ? 1 : -1;
  const order = runs
    .flatMap(({ value }, i) => (value !== null && Number.isFinite(value) ? [{ i, value }] : []))
    .sort((a, b) => sign * (a.value - b.value));
  /** @type {(number | null)[]} */
  const out = runs.map(() => null);
  order.forEach(({ i }, place) => (out[i] = order.length > 1 ? place / (order.length - 1) : 0));
  return out;
}

/**
 * Return which runs are within all ranges.
 *
 * @param {Axis[]} axes
 * @param {Map<string, [number, number]>} brushes by axis; ranges of places
 * @returns {boolean[]} by run
 */
export function within(axes, brushes) {
  const chosen = axes.flatMap((axis) => {
    const range = brushes.get(axis.key);
    return range ? [{ places: axis.places, low: range[0] - 1e-9, high: range[1] + 1e-9 }] : [];
  });
  return (axes[0]?.places ?? []).map((_, i) =>
    chosen.every(({ places, low, high }) => places[i] >= low && places[i] <= high),
  );
}

/**
 * Return the next place of a run above or below `place`, or the end.
 *
 * @param {Axis} axis
 * @param {number} place
 * @param {1 | -1} way
 */
export function nextPlace({ places }, place, way) {
  const beyond = places.filter((each) => way * (each - place) > 1e-9);
  return beyond.length
    ? beyond.reduce((best, each) => (way * (each - best) < 0 ? each : best))
    : way > 0
      ? ABOVE
      : BELOW;
}
