/**
 * Charts in which each run is a point, a bar or a count: their text in the address, and what they draw.
 * The text
 * is a kind and its quantities, one a line: "scatter:config.lr\nmin(val/loss)", "bar:last(loss)".
 */

import { linearAxis, logAxis } from "./axis.js";
import { numberOfRun, quantityText, readQuantity, textOfRun } from "./quantity.js";

/**
 * @typedef {import("./quantity.js").Quantity} Quantity
 * @typedef {import("./quantity.js").RunNumbers} RunNumbers
 * @typedef {{ kind: string, quantities: Quantity[] }} RunChart
 * @typedef {{ label: string, ticks: { at: number, text: string }[], place: (run: RunNumbers) => number | null
 *   }} RunAxis place: a share of the axis, 0 to 1
 * @typedef {{ from: number, to: number, runs: RunNumbers[] }} Bin from, to: shares of the axis
 */

/** Quantities of each kind. */
const RUN_CHARTS = /** @type {Record<string, number>} */ ({ scatter: 2, bar: 1, histogram: 1 });
/** Charts in one address. */
const MOST_RUN_CHARTS = 12;
const LONGEST = 1_000;
/** Positive values that span this factor have a log axis. */
const SPAN = 50;
const BINS = { least: 5, most: 30 };
/** Values of a setting that are no numbers, on one axis. */
const MOST_WORDS = 12;

/**
 * @param {string} text
 * @returns {RunChart | null} null if it is not understood
 */
export function readRunChart(text) {
  const [kind, ...rest] = text.slice(0, LONGEST).split(":");
  const found = rest.join(":").split("\n").map(readQuantity);
  const wanted = Object.hasOwn(RUN_CHARTS, kind) ? RUN_CHARTS[kind] : 0;
  const read = found.filter((each) => each !== null);
  return wanted > 0 && found.length === wanted && read.length === wanted ? { kind, quantities: read } : null;
}

/** @param {RunChart} chart */
export const runChartText = ({ kind, quantities }) => `${kind}:${quantities.map(quantityText).join("\n")}`;

/**
 * Return the charts of an address; unreadable ones are ignored.
 *
 * @param {URLSearchParams} asked
 */
export const readRunCharts = (asked) =>
  [...new Set(asked.getAll("chart").filter(readRunChart))].slice(0, MOST_RUN_CHARTS);

/**
 * Return the metrics that charts need.
 *
 * @param {string[]} charts
 */
export const metricsIn = (charts) => [
  ...new Set(
    charts.flatMap((text) =>
      (readRunChart(text)?.quantities ?? []).flatMap(({ source, name }) =>
        source === "config" ? [] : [name],
      ),
    ),
  ),
];

/**
 * Return an axis over finite values. An automatic one is logarithmic if they are positive and span a large
 * factor. On a logarithmic axis, values that are not positive have no place.
 *
 * @param {number[]} values
 * @param {string} [kind] "auto", "linear" or "log"
 * @returns {{ log: boolean, ticks: { at: number, text: string }[], at: (value: number) => number }} at: the
 *   share of the axis, not finite without a place
 */
export function numberAxis(values, kind = "auto") {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (kind === "log" && value <= 0) continue;
    [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  const log = kind === "log" || (kind === "auto" && low > 0 && high / low >= SPAN);
  const plan = log ? logAxis(low, high) : linearAxis(low, high);
  const [from, to] = plan.range;
  const at = (/** @type {number} */ value) => ((log ? Math.log10(value) : value) - from) / (to - from);
  return { log, ticks: plan.ticks.map((tick, i) => ({ at: at(tick), text: plan.labels[i] })), at };
}

/**
 * Return an axis over the finite numbers of the runs; a setting that is no number has a place for each value.
 *
 * @param {Quantity} quantity
 * @param {RunNumbers[]} runs
 * @returns {RunAxis}
 */
export function runAxis(quantity, runs) {
  const words = quantity.source === "config" ? wordsOf(quantity, runs) : null;
  if (words) return wordAxis(quantity, words);
  const { ticks, at } = numberAxis(finiteOf(quantity, runs));
  return {
    label: quantityText(quantity),
    ticks,
    place: (run) => {
      const value = numberOfRun(quantity, run);
      return value !== null && Number.isFinite(value) ? at(value) : null;
    },
  };
}

/**
 * @param {Quantity} quantity
 * @param {RunNumbers[]} runs
 */
const finiteOf = (quantity, runs) =>
  runs.flatMap((run) => {
    const value = numberOfRun(quantity, run);
    return value !== null && Number.isFinite(value) ? [value] : [];
  });

/**
 * Return the values of a setting that is not a number in every run; null if it is.
 *
 * @param {Quantity} quantity
 * @param {RunNumbers[]} runs
 */
function wordsOf(quantity, runs) {
  const set = runs.filter((run) => textOfRun(quantity, run) !== null);
  if (set.every((run) => numberOfRun(quantity, run) !== null)) return null;
  return [...new Set(set.map((run) => String(textOfRun(quantity, run))))].sort().slice(0, MOST_WORDS);
}

/**
 * @param {Quantity} quantity
 * @param {string[]} words
 * @returns {RunAxis}
 */
const wordAxis = (quantity, words) => ({
  label: quantityText(quantity),
  ticks: words.map((text, i) => ({ at: (i + 0.5) / words.length, text })),
  place: (run) => {
    const i = words.indexOf(textOfRun(quantity, run) ?? "");
    return i < 0 ? null : (i + 0.5) / words.length;
  },
});

/**
 * Return equally wide bins over the runs that have a place on the axis.
 *
 * @param {RunAxis} axis
 * @param {RunNumbers[]} runs
 * @returns {Bin[]}
 */
export function binsOf(axis, runs) {
  const placed = runs.flatMap((run) => {
    const at = axis.place(run);
    return at === null ? [] : [{ run, at }];
  });
  if (!placed.length) return [];
  const places = placed.map(({ at }) => at);
  const [low, high] = [Math.min(...places), Math.max(...places)];
  const count = low < high ? Math.min(BINS.most, Math.max(BINS.least, Math.ceil(Math.sqrt(runs.length)))) : 1;
  const wide = low < high ? (high - low) / count : 1 / BINS.most;
  const start = low < high ? low : low - wide / 2;
  const binOf = (/** @type {number} */ at) => Math.min(count - 1, Math.floor((at - start) / wide));
  return Array.from({ length: count }, (_, i) => ({
    from: start + i * wide,
    to: start + (i + 1) * wide,
    runs: placed.filter(({ at }) => binOf(at) === i).map(({ run }) => run),
  }));
}

/**
 * Return the runs by value, the smallest first; NaN, infinite and missing values last.
 *
 * @param {Quantity} quantity
 * @param {RunNumbers[]} runs
 * @returns {{ run: RunNumbers, value: number | null }[]}
 */
export function byValue(quantity, runs) {
  const last = (/** @type {number | null} */ value) => (value === null ? 2 : Number(!Number.isFinite(value)));
  return runs
    .map((run) => ({ run, value: numberOfRun(quantity, run) }))
    .sort((a, b) => last(a.value) - last(b.value) || Number(a.value) - Number(b.value) || 0);
}
