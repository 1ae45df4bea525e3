/** Maps an API error to a form field and to the sentence shown there. */

/**
 * Return the longest of `names` that equals `subject` or contains it: routes[0].matchers[1] is inside
 * routes[0].matchers.
 *
 * @param {unknown} subject
 * @param {string[]} names
 * @returns {string | null}
 */
export function fieldOf(subject, names) {
  if (typeof subject !== "string" || !subject) return null;
  const found = names.filter(
    (name) => name && (subject === name || (subject.startsWith(name) && /[.[]/.test(subject[name.length]))),
  );
  return found.sort((a, b) => b.length - a.length)[0] ?? null;
}

/** @param {unknown} value */
const shown = (value) => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

/**
 * @param {{ message: string, problem?: { expected?: unknown, got?: unknown, subject?: unknown } }} error
 * @returns {string}
 */
export function sentence({ message, problem }) {
  if (!problem || typeof problem.expected !== "string" || !problem.expected) return message;
  const got =
    problem.got === null || problem.got === undefined || problem.got === ""
      ? "nothing"
      : shown(problem.got).slice(0, 200);
  return `Expected ${problem.expected}, got ${got}.`;
}
