/**
 * What a line cannot show: non-finite values, and zeros and negatives on a log axis. Each becomes a mark
 * above or below the plot at its step.
 */

import { int } from "../format.js";
import { finite } from "./buckets.js";

/** @type {Record<MarkKind, string>} */
export const MARK_WORDS = { nan: "NaN", pinf: "+Inf", ninf: "−Inf", zero: "zero", negative: "negative" };

/**
 * Return the marks of the buckets of `layer`, by kind. `log`: the axis cannot show zero and negative values.
 *
 * @param {Layer} layer
 * @param {boolean} log
 * @param {number} from
 * @param {number} to
 * @returns {Mark[]}
 */
export function marksOf(layer, log, from, to) {
  /** @type {Mark[]} */
  const marks = [];
  for (let i = 0; i < layer.x.length; i++) {
    if (layer.x1[i] < from || layer.x[i] > to) continue;
    for (const kind of /** @type {const} */ (["nan", "pinf", "ninf"])) {
      if (layer[kind][i]) marks.push({ x: layer.x[i], kind, count: layer[kind][i] });
    }
    if (log && finite(layer, i) && layer.min[i] <= 0) marks.push(belowZero(layer, i));
  }
  return marks;
}

/**
 * A bucket stores its minimum but not how many values are at or below zero: at least one, or all if the
 * maximum is too.
 *
 * @param {Layer} layer
 * @param {number} i
 * @returns {Mark}
 */
function belowZero(layer, i) {
  const all = layer.max[i] <= 0;
  const count = all ? finite(layer, i) : 1;
  return { x: layer.x[i], kind: layer.min[i] < 0 ? "negative" : "zero", count, least: !all };
}

/**
 * Merge marks of one kind that are closer than `apart`; the first one keeps its step and the counts add up.
 *
 * @template {{ x: number, kind: string, count: number, least?: boolean }} T
 * @param {T[]} marks
 * @param {number} apart
 * @returns {T[]}
 */
export function mergeMarks(marks, apart) {
  /** @type {Map<string, T>} */
  const open = new Map();
  const out = [];
  for (const mark of [...marks].sort((a, b) => a.x - b.x)) {
    const last = open.get(mark.kind);
    if (last && mark.x - last.x < apart) {
      last.count += mark.count;
      last.least ||= mark.least;
      continue;
    }
    const kept = { ...mark };
    open.set(mark.kind, kept);
    out.push(kept);
  }
  return out;
}

/**
 * "3 NaN · 2 +Inf", "" for none; "≥ 5 zero" if buckets hide the exact count.
 *
 * @param {Mark[]} marks
 */
export function countMarks(marks) {
  const kinds = /** @type {MarkKind[]} */ (Object.keys(MARK_WORDS));
  return kinds
    .map((kind) => marks.filter((mark) => mark.kind === kind))
    .filter((found) => found.length)
    .map((found) => {
      const count = int(found.reduce((sum, mark) => sum + mark.count, 0));
      return `${found.some((mark) => mark.least) ? "≥ " : ""}${count} ${MARK_WORDS[found[0].kind]}`;
    })
    .join(" · ");
}

/**
 * Return steps with a skipped update: buckets of the series `skipped` above zero, merged if closer than
 * `apart`.
 *
 * @param {Layer[]} layers
 * @param {number} from
 * @param {number} to
 * @param {number} apart
 * @returns {number[]}
 */
export function skippedSteps(layers, from, to, apart) {
  const steps = layers.flatMap((layer) =>
    layer.x.filter((x, i) => layer.max[i] > 0 && layer.x1[i] >= from && x <= to),
  );
  let last = -Infinity;
  return steps.sort((a, b) => a - b).filter((x) => (x - last >= apart ? ((last = x), true) : false));
}

/**
 * Return a marker size per point: a value between two gaps needs a dot, because no line shows it. Null
 * without such values.
 *
 * @param {number[]} y
 */
export function isolated(y) {
  const alone = (/** @type {number} */ i) =>
    Number.isFinite(y[i]) && !Number.isFinite(y[i - 1]) && !Number.isFinite(y[i + 1]);
  return y.some((_, i) => alone(i)) ? y.map((_, i) => (alone(i) ? 5 : 0)) : null;
}
