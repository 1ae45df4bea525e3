/**
 * Fuzzy search for commands and runs: the typed letters must appear in order; whole words and word starts
 * score highest.
 */

/** @typedef {{ text: string, note: string, keys?: string, act: () => void }} Command */

/**
 * Score how well `text` matches `typed`; -1 if it doesn't.
 *
 * @param {string} typed
 * @param {string} text
 */
export function fit(typed, text) {
  const want = typed.trim().toLowerCase();
  const have = text.toLowerCase();
  if (!want) return 0;
  const whole = have.indexOf(want);
  if (whole >= 0) {
    return 1000 - whole + (whole === 0 || /[\s/_\-.]/.test(have[whole - 1]) ? 500 : 0) - have.length / 100;
  }
  let at = -1;
  let score = 0;
  for (const letter of want.replace(/\s+/g, "")) {
    const next = have.indexOf(letter, at + 1);
    if (next < 0) return -1;
    score += next === at + 1 ? 8 : 1;
    at = next;
  }
  return score - have.length / 100;
}

/**
 * Return the best matches, best first; ties keep their order.
 *
 * @template {{ text: string, note: string }} T
 * @param {string} typed
 * @param {T[]} commands
 * @param {number} most
 * @returns {T[]}
 */
export function best(typed, commands, most) {
  const scored = commands.map((command, i) => ({
    command,
    i,
    score: Math.max(fit(typed, command.text), fit(typed, `${command.text} ${command.note}`) - 1),
  }));
  return scored
    .filter(({ score }) => score > -1)
    .sort((a, b) => b.score - a.score || a.i - b.i)
    .slice(0, most)
    .map(({ command }) => command);
}
