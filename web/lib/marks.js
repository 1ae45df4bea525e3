/** What a line cannot show: non-finite values by kind, and on a log axis zeros and negatives. Each is a mark on a rail at its step. */

import { finite } from "./buckets.js";

/** @type {Record<MarkKind, string>} */
export const MARK_WORDS = { nan: "NaN", pinf: "+Inf", ninf: "−Inf", zero: "zero", negative: "negative" };

/** Marks of the buckets of `layer`, kind by kind. `log`: the axis cannot show zero and below. @param {Layer} layer @param {boolean} log @param {number} from @param {number} to @returns {Mark[]} */
export function marksOf(layer, log, from, to) {
  /** @type {Mark[]} */
  const marks = [];
  for (let i = 0; i < layer.x.length; i++) {
    if (layer.x1[i] < from || layer.x[i] > to) continue;
    for (const kind of /** @type {const} */ (["nan", "pinf", "ninf"])) if (layer[kind][i]) marks.push({ x: layer.x[i], kind, count: layer[kind][i] });
    if (log && finite(layer, i) && layer.min[i] <= 0) marks.push(belowZero(layer, i));
  }
  return marks;
}

/** A bucket keeps its least value, not how many are at or below zero: at least one, all of them if the greatest is too. @param {Layer} layer @param {number} i @returns {Mark} */
function belowZero(layer, i) {
  return { x: layer.x[i], kind: layer.min[i] < 0 ? "negative" : "zero", count: layer.max[i] <= 0 ? finite(layer, i) : 1 };
}

/** Joins marks of one kind that lie closer than `apart`; the first keeps its step and takes the counts of the rest. @param {Mark[]} marks @param {number} apart @returns {Mark[]} */
export function mergeMarks(marks, apart) {
  /** @type {Map<MarkKind, Mark>} */
  const open = new Map();
  const out = [];
  for (const mark of [...marks].sort((a, b) => a.x - b.x)) {
    const last = open.get(mark.kind);
    if (last && mark.x - last.x < apart) { last.count += mark.count; continue; }
    const kept = { ...mark };
    open.set(mark.kind, kept);
    out.push(kept);
  }
  return out;
}

/** "3 NaN · 2 +Inf", "" for none. @param {Mark[]} marks */
export function countMarks(marks) {
  /** @type {Map<MarkKind, number>} */
  const totals = new Map();
  for (const { kind, count } of marks) totals.set(kind, (totals.get(kind) ?? 0) + count);
  return Object.entries(MARK_WORDS).filter(([kind]) => totals.has(/** @type {MarkKind} */ (kind))).map(([kind, text]) => `${totals.get(/** @type {MarkKind} */ (kind))} ${text}`).join(" · ");
}

/** Steps with a skipped update: buckets of the series `skipped` with a value above zero, joined when closer than `apart`. @param {Layer[]} layers @param {number} from @param {number} to @param {number} apart @returns {number[]} */
export function skippedSteps(layers, from, to, apart) {
  const steps = layers.flatMap((layer) => layer.x.filter((x, i) => layer.max[i] > 0 && layer.x1[i] >= from && x <= to));
  let last = -Infinity;
  return steps.sort((a, b) => a - b).filter((x) => (x - last >= apart ? ((last = x), true) : false));
}
