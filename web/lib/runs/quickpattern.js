/** Which regular expressions of a reader are evaluated: none that can take long. */

export const QUICK =
  "a regular expression of at most 100 letters, with at most three of ( and of * + ? {, " +
  "and no repeated group";

/**
 * Return whether a regular expression cannot take long: a filter may come from a link.
 *
 * @param {string} pattern
 */
export const isQuick = (pattern) =>
  pattern.length <= 100 &&
  [...pattern].filter((letter) => "*+?{".includes(letter)).length <= 3 &&
  [...pattern].filter((letter) => letter === "(").length <= 3 &&
  ![")*", ")+", "){", ..."123456789k".split("").map((digit) => `\\${digit}`)].some((part) =>
    pattern.includes(part),
  );
