/** Names of metrics and settings that can be columns, and those that match what is typed. */

import { counted } from "../format.js";

/**
 * @typedef {{ name: string, hint: string, kinds: [id: string, text: string][], metric?: boolean }} Suggestion
 *   kinds: the columns that it can be, besides the mean of a metric's last values
 */

const MOST = 30;

/**
 * @param {{ name: string, runs: number }[]} metrics
 * @param {string[]} settings
 * @returns {Suggestion[]} metrics first
 */
export const suggestionsOf = (metrics, settings) => [
  ...metrics.map(({ name, runs }) => ({
    name,
    hint: counted(runs, "run"),
    metric: true,
    kinds: /** @type {[string, string][]} */ ([
      [`last:${name}`, "Newest"],
      [`min:${name}`, "Lowest"],
      [`max:${name}`, "Highest"],
    ]),
  })),
  ...settings.map((key) => ({
    name: `config.${key}`,
    hint: "setting",
    kinds: /** @type {[string, string][]} */ ([[`config:${key}`, "Value"]]),
  })),
];

/**
 * Return the suggestions that contain all typed words, those that begin with the first one at the top.
 *
 * @param {Suggestion[]} known
 * @param {string} typed
 * @returns {{ items: Suggestion[], more: number }} more: how many others match
 */
export function matching(known, typed) {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const held = known.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
  const first = words[0] ?? "";
  const begins = (/** @type {Suggestion} */ { name }) => Number(!name.toLowerCase().startsWith(first));
  const items = held.sort((a, b) => begins(a) - begins(b)).slice(0, MOST);
  return { items, more: held.length - items.length };
}
