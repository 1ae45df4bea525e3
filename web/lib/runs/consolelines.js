/** Lines that a script wrote to its terminal: joining pages of them, and finding one by its step. */

/** With more lines than this, only the newest page is kept. */
export const MOST_LINES = 5000;

/**
 * Return lines with later ones behind them. A line that has not ended, such as a progress bar, is replaced by
 * the next line of its stream.
 *
 * @param {ConsoleLine[]} lines oldest first
 * @param {ConsoleLine[]} more
 */
export function joinedLines(lines, more) {
  const streams = new Set(more.map(streamOf));
  return [...lines.filter((line) => !line.open || !streams.has(streamOf(line))), ...more];
}

/** @param {ConsoleLine} line */
const streamOf = ({ attempt, rank, stream }) => `${attempt} ${rank} ${stream}`;

/**
 * Return the index of the newest line at or before a step of the newest attempt; -1 if there is none.
 *
 * @param {ConsoleLine[]} lines oldest first
 * @param {number} step
 */
export function lineAt(lines, step) {
  const newest = lines.reduce((most, { attempt }) => Math.max(most, attempt), 0);
  for (let i = lines.length - 1; i >= 0; i--) {
    const { attempt, step: at } = lines[i];
    if (attempt === newest && at !== null && at <= step) return i;
  }
  return -1;
}

/**
 * Return what is written before a line: that earlier ones are missing, or that an attempt begins.
 *
 * @param {ConsoleLine} line
 * @param {ConsoleLine | undefined} before
 * @returns {{ dropped: number, attempt: number | null }}
 */
export const headOf = (line, before) => ({
  dropped: line.dropped,
  attempt: before && before.attempt !== line.attempt ? line.attempt : null,
});
