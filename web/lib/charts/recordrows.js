/** The records of a chart as rows of its table of values: one for each step, attempt and rank. */

/**
 * Join the records of a step, because a script may log each metric by itself, and compute the cells.
 *
 * @template {{ step: number, attempt: number, rank: number, values: Record<string, unknown> }} T
 * @param {T[]} items
 * @param {{ of: (values: Record<string, unknown>) => unknown }[]} columns
 * @returns {(T & { cells: unknown[] })[]} those in which any cell has a value
 */
export function byStep(items, columns) {
  /** @type {Map<string, T>} */
  const rows = new Map();
  for (const item of items) {
    const key = `${item.step} ${item.attempt} ${item.rank}`;
    const known = rows.get(key);
    rows.set(key, { ...item, values: { ...known?.values, ...item.values } });
  }
  return [...rows.values()]
    .map((row) => ({ ...row, cells: columns.map(({ of }) => of(row.values)) }))
    .filter(({ cells }) => cells.some((cell) => cell !== undefined));
}
