/** The ranks of a distributed run beside each other: which is slower or behind, and by how much. */

import { at, emptyLayer, finite, pushBucket } from "./buckets.js";
import { num } from "../format.js";

/**
 * @typedef {{ rank: number, host: string, connected: boolean, last: number | null, time: number | null,
 * times:
 *   number | null, data: number | null, loss: number | null }} RankRow last: its newest step; time: median
 *   seconds
 *   per step; times: how many times that of the fastest rank; data: median seconds of a step that it waits
 *   for
 *   data; loss: the newest
 */

/** Ranks whose times differ by less than this share are called equal. */
const EQUAL = 0.05;
/** The share of a step above which a wait for data is named. */
const WAIT = 0.05;

/**
 * Return the largest minus the smallest value over ranks, by attempt, at the records of the rank with the
 * fewest. A
 * rank without a finite value leaves a mark. A bucket of several records counts with its mean.
 *
 * @param {Layer[]} layers
 * @returns {Layer[]} newest attempt first
 */
export function spreadOf(layers) {
  const attempts = [...new Set(layers.map((layer) => layer.attempt))];
  return attempts.flatMap((attempt) => {
    const ranks = layers.filter((layer) => layer.attempt === attempt && layer.x.length);
    return ranks.length > 1 ? [spread(ranks)] : [];
  });
}

/**
 * @param {Layer[]} ranks
 * @returns {Layer}
 */
function spread(ranks) {
  const sparsest = ranks.reduce((a, b) => (b.x.length < a.x.length ? b : a));
  const out = emptyLayer(sparsest.attempt, 0);
  for (let i = 0; i < sparsest.x.length; i++) {
    const found = ranks.flatMap((layer) => {
      const place = layer === sparsest ? i : at(layer.x, sparsest.x1[i]);
      return place >= 0 && layer.x1[place] >= sparsest.x[i] ? [{ layer, place }] : [];
    });
    const means = found.flatMap(({ layer, place }) => (finite(layer, place) ? [layer.mean[place]] : []));
    const count = (/** @type {"nan" | "pinf" | "ninf"} */ key) =>
      found.filter(({ layer, place }) => layer[key][place]).length;
    const bad = { nan: count("nan"), pinf: count("pinf"), ninf: count("ninf") };
    if (means.length > 1 || bad.nan + bad.pinf + bad.ninf) {
      pushBucket(out, bucketAt(sparsest, i, means, bad), 0);
    }
  }
  return out;
}

/**
 * @param {Layer} like
 * @param {number} i
 * @param {number[]} means
 * @param {{ nan: number, pinf: number, ninf: number }} bad
 * @returns {Layer} of one bucket
 */
function bucketAt(like, i, means, { nan, pinf, ninf }) {
  const apart = means.length > 1 ? Math.max(...means) - Math.min(...means) : NaN;
  return {
    attempt: like.attempt,
    rank: 0,
    x: [like.x[i]],
    x1: [like.x1[i]],
    t: [like.t[i]],
    min: [apart],
    max: [apart],
    mean: [apart],
    last: [apart],
    n: [nan + pinf + ninf + Number(means.length > 1)],
    nan: [nan],
    pinf: [pinf],
    ninf: [ninf],
  };
}

/**
 * Return a row for each rank of the newest attempt.
 *
 * @param {RunDetail["writers"]} writers
 * @param {(name: string) => Layer[]} layersOf `step_time`, `data_time` and `loss`
 * @returns {RankRow[]} by rank
 */
export function rankRows(writers, layersOf) {
  const newest = Math.max(0, ...writers.map(({ attempt }) => attempt));
  const own = writers.filter(({ attempt }) => attempt === newest);
  const of = (/** @type {string} */ name, /** @type {number} */ rank) =>
    layersOf(name).find((layer) => layer.attempt === newest && layer.rank === rank);
  const rows = [...new Set(own.map(({ rank }) => rank))]
    .sort((a, b) => a - b)
    .map((rank) => {
      const processes = own.filter((writer) => writer.rank === rank);
      const [time, data, loss] = ["step_time", "data_time", "loss"].map((name) => of(name, rank));
      const ends = [time, loss].flatMap((layer) => (layer?.x1.length ? [layer.x1[layer.x1.length - 1]] : []));
      return {
        rank,
        host: processes[processes.length - 1].host ?? "",
        connected: processes.some(({ connected }) => connected),
        last: ends.length ? Math.max(...ends) : null,
        time: median(time),
        times: /** @type {number | null} */ (null),
        data: median(data),
        loss: loss?.x.length ? loss.last[loss.last.length - 1] : null,
      };
    });
  const fastest = Math.min(...rows.flatMap(({ time }) => (time ? [time] : [])));
  return rows.map((row) => ({ ...row, times: row.time && fastest > 0 ? row.time / fastest : null }));
}

/**
 * Return the median of the values, of buckets of their means.
 *
 * @param {Layer | undefined} layer
 * @returns {number | null}
 */
function median(layer) {
  const values = (layer?.mean ?? []).filter((_, i) => layer && finite(layer, i)).sort((a, b) => a - b);
  if (!values.length) return null;
  return (values[Math.ceil(values.length / 2) - 1] + values[Math.floor(values.length / 2)]) / 2;
}

/**
 * Return in words which rank is slower and which one waits for data or is behind.
 *
 * @param {RankRow[]} rows
 * @returns {string[]} sentences
 */
export function rankWords(rows) {
  const timed = rows.filter((row) => row.time !== null);
  return timed.length > 1 ? [...paceWords(timed), ...behindWords(rows)] : behindWords(rows);
}

/** @param {RankRow[]} rows */
function paceWords(rows) {
  const sorted = [...rows].sort((a, b) => Number(a.time) - Number(b.time));
  const [fastest, slowest] = [sorted[0], sorted[sorted.length - 1]];
  const apart = Number(slowest.time) - Number(fastest.time);
  if (apart >= EQUAL * Number(fastest.time)) {
    return [
      `Rank ${slowest.rank} is the slowest: ${seconds(slowest.time)} per step, ${num(slowest.times, 3)}x ` +
        `the fastest (rank ${fastest.rank}, ${seconds(fastest.time)}). The spread is ${seconds(apart)}.`,
    ];
  }
  const equal = `All ranks take about the same time per step, ${seconds(slowest.time)}.`;
  const waiting = [...rows].sort((a, b) => Number(b.data) - Number(a.data));
  const rest = Number(waiting[0].data) - Number(waiting[waiting.length - 1].data);
  return rest > WAIT * Number(slowest.time)
    ? [
        equal,
        `Rank ${waiting[0].rank} waits longest for data, ${seconds(waiting[0].data)} per step; the others ` +
          "wait for it when they synchronize.",
      ]
    : [
        equal,
        "In synchronous training all ranks wait for the slowest: equal times do not rule out a slow rank.",
      ];
}

/** @param {RankRow[]} rows */
function behindWords(rows) {
  const first = Math.max(...rows.map(({ last }) => last ?? -Infinity));
  const late = rows
    .filter(({ last }) => (last ?? first) < first)
    .sort((a, b) => Number(a.last) - Number(b.last));
  if (!late.length) return [];
  const others = late.length > 1 ? ` (and ${late.length - 1} more)` : "";
  return [`Rank ${late[0].rank}${others} is behind: step ${late[0].last} of ${first}.`];
}

/** @param {number | null} value */
export const seconds = (value) =>
  value === null ? "–" : value < 1 ? `${num(value * 1000, 3)} ms` : `${num(value, 3)} s`;
