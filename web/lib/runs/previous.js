/** What came before: the previous attempt of a run, and the previous run of the same name. */

const DIGITS = "0123456789";
/** Separators between a run's name and its repetition number, as in core/run_changes.py. */
const BETWEEN = " _-.:/#+=()[]";

/**
 * Return the number of the newest attempt before the last one that took a step, or null.
 *
 * @param {{ attempt: number, first_step: number | null }[]} attempts
 * @returns {number | null}
 */
export function previousAttempt(attempts) {
  const newest = Math.max(...attempts.map((each) => each.attempt));
  const earlier = attempts.filter((each) => each.attempt < newest && each.first_step !== null);
  return earlier.length ? Math.max(...earlier.map((each) => each.attempt)) : null;
}

/**
 * Return the first of some earlier runs that took a step and has the name of this one, but for its number.
 *
 * @template {{ name: string, last_step: number | null, archived: boolean }} Row
 * @param {{ name: string }} run
 * @param {Row[]} earlier newest first
 * @returns {Row | null}
 */
export const previousRun = (run, earlier) =>
  earlier.find((each) => !each.archived && each.last_step !== null && stem(each.name) === stem(run.name)) ??
  null;

/**
 * Return a run's name without the trailing number of a repetition.
 *
 * @param {string} name
 */
function stem(name) {
  const bare = withoutEnd(name, DIGITS);
  return bare === name ? name : withoutEnd(bare, BETWEEN);
}

/**
 * @param {string} text
 * @param {string} characters
 */
function withoutEnd(text, characters) {
  let end = text.length;
  while (end && characters.includes(text[end - 1])) end--;
  return text.slice(0, end);
}
