/** A sweep in numbers: how a metric of runs depends on the config keys that differ. */

import { csvOf } from "../csv.js";
import { flatten, numberOf } from "../flatten.js";
import { finite } from "./buckets.js";
import { clip } from "./picture.js";
import { centered, ranks, spearman } from "./rankcorrelation.js";
import { stretches } from "./series.js";

/**
 * @typedef {"last" | "last-high" | "min" | "max"} Goal which value of a series counts, and whether a low one
 *   is better: the last one, the smallest or the largest
 * @typedef {{ id: string, name: string, state: string, config: unknown, trouble: string, value: number | null
 *   }} Outcome trouble: why its model may be broken, ""; value: the metric of a run; null: it has none
 * @typedef {{ key: string, values: (string | undefined)[], numbers: number[] | null, log: boolean }} Factor
 *   a config key that differs; values by run; numbers: if all values that are set are numbers
 * @typedef {{ key: string, n: number, values: number, rho: number | null, chance: number | null,
 *   share: number | null, best: string | undefined }} Influence
 *   n: runs; values: different ones; rho: rank correlation; chance: a smaller one is likely by chance; share:
 *   of the variance; best: value of the best run
 */

/** With fewer runs than this, correlations say little. */
export const FEW = 10;
/** Positive numbers that span this factor are compared by their logarithm. */
const SPAN = 50;
/** Numbers with more different values than this are put into as many bins. */
const MOST_BINS = 5;
/** 97.5 % quantile of the normal distribution. */
const TWO_SIDED = 1.96;

/**
 * Return whether a low value is better.
 *
 * @param {Goal} goal
 */
export const lowIsBest = (goal) => goal === "last" || goal === "min";

/**
 * Return the metric of a run, NaN and infinite ones included; null if it has none.
 *
 * @param {Layer[]} layers newest attempt first
 * @param {Goal} goal
 * @returns {number | null}
 */
export function metricOf(layers, goal) {
  const parts = stretches(layers).filter((part) => !part.faint);
  const newest = layers.find((layer) => layer.x.length);
  if (!newest || !parts.length) return null;
  if (goal === "last" || goal === "last-high") return newest.last[newest.last.length - 1];
  const column = goal === "min" ? "min" : "max";
  const better = Math[column];
  let found = NaN;
  for (const part of parts) {
    const layer = clip(part.layer, part.from, part.to);
    layer[column].forEach((value, i) => {
      if (finite(layer, i)) found = Number.isNaN(found) ? value : better(found, value);
    });
  }
  return found;
}

/**
 * Return the config keys in which runs differ.
 *
 * @param {Outcome[]} runs
 * @returns {Factor[]}
 */
export function factorsOf(runs) {
  const flat = runs.map((run) => new Map(flatten(run.config)));
  const keys = [...new Set(flat.flatMap((each) => [...each.keys()]))].sort();
  return keys.flatMap((key) => {
    const values = flat.map((each) => each.get(key));
    return new Set(values).size > 1 ? [factorOf(key, values)] : [];
  });
}

/**
 * @param {string} key
 * @param {(string | undefined)[]} values
 * @returns {Factor}
 */
function factorOf(key, values) {
  const numbers = values.map(numberOf);
  const known = numbers.filter((_, i) => values[i] !== undefined);
  if (!known.every(Number.isFinite)) return { key, values, numbers: null, log: false };
  const low = Math.min(...known);
  return { key, values, numbers, log: low > 0 && Math.max(...known) / low >= SPAN };
}

/**
 * Return the best run, or null if none has a finite value.
 *
 * @param {Outcome[]} runs
 * @param {Goal} goal
 */
export function bestOf(runs, goal) {
  const sign = lowIsBest(goal) ? 1 : -1;
  return runs.reduce(
    (best, run) =>
      Number.isFinite(run.value) && (!best || sign * Number(run.value) < sign * Number(best.value))
        ? run
        : best,
    /** @type {Outcome | null} */ (null),
  );
}

/**
 * Return the best of the runs whose model is not in doubt; if there is none, the best of all, or null.
 *
 * @param {Outcome[]} runs
 * @param {Goal} goal
 */
export const bestIntact = (runs, goal) =>
  bestOf(
    runs.filter(({ trouble }) => !trouble),
    goal,
  ) ?? bestOf(runs, goal);

/**
 * Return how much each config key has to do with the metric, the most first. Everything is computed from
 * ranks, so that one extreme run doesn't decide; runs whose metric is not finite share the worst rank.
 *
 * @param {Outcome[]} runs
 * @param {Goal} goal
 * @returns {Influence[]}
 */
export function influences(runs, goal) {
  const worst = lowIsBest(goal) ? Infinity : -Infinity;
  const used = runs.filter((run) => run.value !== null);
  const metric = used.map(({ value }) => (Number.isFinite(value) ? Number(value) : worst));
  const best = bestIntact(used, goal);
  return factorsOf(used)
    .map((factor) => influence(factor, metric, best ? factor.values[used.indexOf(best)] : undefined))
    .sort((a, b) => (b.share ?? -1) - (a.share ?? -1) || (a.key < b.key ? -1 : 1));
}

/**
 * @param {Factor} factor
 * @param {number[]} metric
 * @param {string | undefined} best
 * @returns {Influence}
 */
function influence({ key, values, numbers }, metric, best) {
  const set = values.flatMap((value, i) => (value === undefined ? [] : [i]));
  const of = set.map((i) => metric[i]);
  const rho = numbers
    ? spearman(
        set.map((i) => numbers[i]),
        of,
      )
    : null;
  return {
    key,
    n: set.length,
    values: new Set(set.map((i) => values[i])).size,
    rho,
    chance: rho !== null && set.length > 2 ? Math.min(1, TWO_SIDED / Math.sqrt(set.length - 1)) : null,
    share: shareOf(numbers ? binned(set.map((i) => numbers[i])) : set.map((i) => String(values[i])), of),
    best,
  };
}

/**
 * Return the share of the variance of the ranks that groups explain, less what as many random groups would
 * explain (ε², T. L. Kelley 1935). Null if unknown: no two runs in a group, or one group.
 *
 * @param {string[]} groups by run
 * @param {number[]} metric
 * @returns {number | null}
 */
export function shareOf(groups, metric) {
  const y = centered(ranks(metric));
  const total = y.reduce((sum, value) => sum + value * value, 0);
  const sums = /** @type {Map<string, { n: number, sum: number }>} */ (new Map());
  groups.forEach((group, i) => {
    const each = sums.get(group) ?? { n: 0, sum: 0 };
    sums.set(group, { n: each.n + 1, sum: each.sum + y[i] });
  });
  const free = y.length - sums.size;
  if (sums.size < 2 || free < 1 || !(total > 0)) return null;
  const between = [...sums.values()].reduce((all, { n, sum }) => all + (sum * sum) / n, 0);
  const within = (total - between) / free;
  return Math.max(0, Math.min(1, (between - (sums.size - 1) * within) / total));
}

/**
 * Return the group of each number: itself, or if there are many different ones, its bin of about equal size.
 *
 * @param {number[]} numbers
 */
function binned(numbers) {
  if (new Set(numbers).size <= MOST_BINS) return numbers.map(String);
  const places = ranks(numbers);
  return places.map((place) => String(Math.ceil((place / numbers.length) * MOST_BINS)));
}

const HEADS = ["setting", "importance", "rank_correlation", "chance", "runs", "values", "best"];

/**
 * Return the influences as CSV; what is not known is empty.
 *
 * @param {Influence[]} rows
 */
export function influencesCsv(rows) {
  const lines = rows.map(({ key, share, rho, chance, n, values, best }) => [
    ...[key, share, rho, chance, n, values, best],
  ]);
  return csvOf([HEADS, ...lines]);
}
