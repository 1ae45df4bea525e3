/** Kiosk mode shows one project after the other. */

/** Bounds of the time that each project is shown, in seconds. */
const SHORTEST = 2;
const LONGEST = 3_600;

/**
 * Read how long each project is shown, from an address.
 *
 * @param {string | null} text
 * @returns {number} seconds; 0: no rotation
 */
export function readRotation(text) {
  const seconds = Number(text);
  return seconds > 0 && Number.isFinite(seconds) ? Math.min(LONGEST, Math.max(SHORTEST, seconds)) : 0;
}

/**
 * Return the project to show: that one, or the next if it has no runs any more.
 *
 * @param {string[]} projects ascending
 * @param {string | null} shown
 * @returns {string | null} null without projects
 */
export const kept = (projects, shown) =>
  projects.find((each) => shown === null || each >= shown) ?? projects[0] ?? null;

/**
 * Return the project after that one, then the first again.
 *
 * @param {string[]} projects ascending
 * @param {string | null} shown
 * @returns {string | null}
 */
export const following = (projects, shown) =>
  projects.find((each) => shown === null || each > shown) ?? projects[0] ?? null;
