/** Names and steps of the media of several runs. */

/**
 * Return the names, those that more runs have first.
 *
 * @param {Pick<MediaRow, "name">[][]} runs
 */
export function mediaNames(runs) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const items of runs) {
    for (const name of new Set(items.map((item) => item.name))) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).map(([name]) => name);
}

/**
 * Return the steps at which any run has an object, ascending.
 *
 * @param {Pick<MediaRow, "step">[][]} runs
 */
export const mediaSteps = (runs) =>
  [...new Set(runs.flat().map((item) => item.step ?? 0))].sort((a, b) => a - b);
