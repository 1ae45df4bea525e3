/** What a chart shows, in words: its text alternative for people who do not see it. */

import { leadsOf } from "../alerts/incidents.js";
import { counted, int, num, ruleTitle } from "../format.js";
import { finite } from "./buckets.js";
import { MARK_WORDS } from "./marks.js";
import { ranksOf } from "./ranks.js";
import { stretches } from "./series.js";

/**
 * @typedef {{ layer: Layer, i: number }} Bucket
 * @typedef {{ layers: Layer[], window: [number, number], log?: boolean, held?: boolean,
 *   text?: (value: number) => string, skipped?: Layer[], alerts?: Alert[], chosen?: string | null }} Curve
 *   layers: the one that is drawn as a line first; window: in steps; held: each value is held until the next
 *   one; text: how a value is written
 */

/** Directions are read from this many parts of a curve. */
const PARTS = 4;
/** The least points for which a direction is given. */
const FEWEST = 8;
/** A smaller change of the median, as a share of the curve's height, is level. */
const LEVEL = 0.1;
/** The same relative to the noise of a median. */
const NOISE = 4;
/** Alerts that are named; the others are counted. */
const MOST_ALERTS = 3;
export const NON_FINITE = /** @type {const} */ (["nan", "pinf", "ninf"]);

/**
 * Return what a chart of one run shows in its window.
 *
 * @param {Curve} curve
 */
export function describe(curve) {
  const { layers, window, text = num, held = false, log = false } = curve;
  const buckets = shownIn(layers, window);
  const good = buckets.filter(({ layer, i }) => finite(layer, i) > 0);
  const span = `Steps ${int(Math.ceil(window[0]))} to ${int(Math.floor(window[1]))}`;
  const value = (/** @type {Bucket} */ { layer, i }) => (held ? layer.last[i] : layer.mean[i]);
  const course = good.length
    ? courseOf(good, good.map(value), log, text)
    : [buckets.length ? "no finite values" : "no values"];
  return sentences([
    `${span}: ${course[0]}`,
    ...course.slice(1),
    ofRanks(layers),
    ...nonFinite(layers, window),
    skippedIn(curve.skipped ?? [], window),
    alertsIn(curve.alerts ?? [], window, curve.chosen ?? null),
  ]);
}

/**
 * Say whose line it is if several ranks reported.
 *
 * @param {Layer[]} layers
 */
function ofRanks(layers) {
  const ranks = ranksOf(layers);
  return ranks.length > 1 ? `The line is rank ${int(layers[0].rank)} of ${int(ranks.length)} ranks` : "";
}

/**
 * Return the parts that are not empty as sentences.
 *
 * @param {string[]} parts
 */
export const sentences = (parts) =>
  parts
    .filter(Boolean)
    .map((part) => `${part}.`)
    .join(" ");

/**
 * Return the buckets of the line in the window by step: the newest attempt, and older ones before it.
 *
 * @param {Layer[]} layers
 * @param {[number, number]} window
 * @returns {Bucket[]}
 */
function shownIn(layers, [a, b]) {
  return stretches(layers)
    .filter((part) => !part.faint)
    .sort((one, other) => one.from - other.from)
    .flatMap(({ layer, from, to }) =>
      layer.x
        .map((_, i) => ({ layer, i }))
        .filter(({ i }) => {
          const x = layer.x[i];
          return x >= from && (x < to || to === layer.x[layer.x.length - 1]) && layer.x1[i] >= a && x <= b;
        }),
    );
}

/**
 * "starts at 2.3 and ends at 0.31", then the extremes with their steps and the directions.
 *
 * @param {Bucket[]} good with finite values
 * @param {number[]} line
 * @param {boolean} log
 * @param {(value: number) => string} text
 */
function courseOf(good, line, log, text) {
  const low = good.reduce((best, each) => (minOf(each) < minOf(best) ? each : best));
  const high = good.reduce((best, each) => (maxOf(each) > maxOf(best) ? each : best));
  const [start, end] = [startOf(good[0]), endOf(good[good.length - 1])];
  if (minOf(low) === maxOf(high)) return [`constant at ${text(minOf(low))}`];
  return [
    `starts at ${text(start)} and ends at ${text(end)}`,
    `Lowest ${text(minOf(low))} ${where(low)}, highest ${text(maxOf(high))} ${where(high)}`,
    turns(line, log),
  ];
}

/** @param {Bucket} bucket */
const minOf = ({ layer, i }) => layer.min[i];
/** @param {Bucket} bucket */
const maxOf = ({ layer, i }) => layer.max[i];
/** @param {Bucket} bucket */
const startOf = ({ layer, i }) => layer.mean[i];
/** @param {Bucket} bucket */
const endOf = ({ layer, i }) => (Number.isFinite(layer.last[i]) ? layer.last[i] : layer.mean[i]);

/** @param {Bucket} bucket */
const where = ({ layer: { x, x1 }, i }) =>
  x1[i] > x[i] ? `between steps ${int(x[i])} and ${int(x1[i])}` : `at step ${int(x[i])}`;

/**
 * Return the directions of a curve in their order: "Falls, then level". Medians of its parts are compared, so
 * that spikes don't count; changes that noise explains are level.
 *
 * @param {number[]} values
 * @param {boolean} log
 */
export function turns(values, log) {
  const y = values.map((value) => (log && value > 0 ? Math.log(value) : value)).filter(Number.isFinite);
  if (y.length < FEWEST) return "";
  const size = y.length / PARTS;
  const middles = Array.from({ length: PARTS }, (_, k) =>
    quantile(y.slice(Math.floor(k * size), Math.floor((k + 1) * size)), 0.5),
  );
  const apart = y.slice(1).map((value, i) => Math.abs(value - y[i]));
  const noise = (NOISE * quantile(apart, 0.5)) / Math.sqrt(size);
  const least = Math.max(LEVEL * (quantile(y, 0.95) - quantile(y, 0.05)), monotone(y) ? 0 : noise);
  const ways = middles.slice(1).map((value, k) => direction(value - middles[k], least));
  const changes = ways.filter((way, k) => way !== ways[k - 1]);
  const joined = changes.join(", then ");
  return joined.charAt(0).toUpperCase() + joined.slice(1);
}

/** @param {number[]} y */
const monotone = (y) =>
  y.every((value, i) => !i || value >= y[i - 1]) || y.every((value, i) => !i || value <= y[i - 1]);

/**
 * @param {number} change
 * @param {number} least
 */
const direction = (change, least) =>
  Math.abs(change) <= least ? "level" : change < 0 ? "falling" : "rising";

/**
 * @param {number[]} values
 * @param {number} share
 */
function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))] ?? NaN;
}

/**
 * "3 NaN, the first at step 120", for each kind; over all ranks and attempts, as the marks of the chart.
 *
 * @param {Layer[]} layers
 * @param {[number, number]} window
 */
function nonFinite(layers, [a, b]) {
  return NON_FINITE.map((kind) => {
    const found = layers
      .flatMap((layer) => layer.x.map((_, i) => ({ layer, i })))
      .filter(({ layer, i }) => layer[kind][i] > 0 && layer.x1[i] >= a && layer.x[i] <= b);
    const count = found.reduce((sum, { layer, i }) => sum + layer[kind][i], 0);
    return count ? `${int(count)} ${MARK_WORDS[kind]}, ${first(count, found)}` : "";
  });
}

/**
 * @param {number} count
 * @param {Bucket[]} found
 */
function first(count, found) {
  const earliest = found.reduce((best, each) => (each.layer.x[each.i] < best.layer.x[best.i] ? each : best));
  return (count > 1 ? "the first " : "") + where(earliest);
}

/**
 * @param {Layer[]} layers of the series `skipped`: 1 for a skipped step, else 0
 * @param {[number, number]} window
 */
function skippedIn(layers, [a, b]) {
  const found = stretches(layers)
    .flatMap(({ layer }) => layer.x.map((_, i) => ({ layer, i })))
    .filter(({ layer, i }) => layer.max[i] > 0 && layer.x1[i] >= a && layer.x[i] <= b);
  if (!found.length) return "";
  const count = Math.round(found.reduce((sum, { layer, i }) => sum + layer.mean[i] * layer.n[i], 0));
  return `${counted(Math.max(1, count), "skipped step")}, ${first(count, found)}`;
}

/**
 * @param {Alert[]} alerts
 * @param {[number, number]} window
 * @param {string | null} chosen
 */
function alertsIn(alerts, [a, b], chosen) {
  const found = leadsOf(alerts, chosen).filter(
    ({ onset_step: onset, state }) => state !== "pending" && onset !== null && onset >= a && onset <= b,
  );
  if (!found.length) return "";
  const named = found
    .slice(0, MOST_ALERTS)
    .map(({ rule, severity, onset_step }) => `${ruleTitle(rule)} (${severity}) from step ${int(onset_step)}`);
  const rest = found.length - named.length;
  const head = found.length > 1 ? "Alerts" : "Alert";
  return `${head}: ${named.join(", ")}${rest ? ` and ${int(rest)} more` : ""}`;
}
