/** Two metrics of a run against each other: a point for each step at which both have a record. */

import { combined } from "./combined.js";

/**
 * @typedef {{ step: number, x: number, y: number }} Pair
 * @typedef {{ pairs: Pair[], bad: number, means: boolean }} Pairs bad: steps at which one is not finite;
 *   means: whether points are means of several records
 */

/**
 * Return the pairs of the newest attempt and its lowest rank, as far as both metrics have one.
 *
 * @param {[string, string]} names
 * @param {(name: string) => Layer[]} layersOf newest attempt first
 * @returns {Pairs}
 */
export function pairsOf(names, layersOf) {
  const same = names[0] === names[1];
  const asked = same ? [names[0]] : names;
  const [xs] = combined({ names: asked, value: (values) => values[0] }, layersOf);
  const [ys] = combined({ names: asked, value: (values) => values[same ? 0 : 1] }, layersOf);
  if (!xs || !ys) return { pairs: [], bad: 0, means: false };
  const all = xs.x.map((step, i) => ({ step, x: xs.mean[i], y: ys.mean[i] }));
  const pairs = all.filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
  const used = names.flatMap((name) =>
    layersOf(name).filter(({ attempt, rank }) => attempt === xs.attempt && rank === xs.rank),
  );
  const means = used.some(({ n }) => n.some((count) => count > 1));
  return { pairs, bad: all.length - pairs.length, means };
}
