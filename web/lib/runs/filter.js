/**
 * The run filter: free text; project:, name:, tag:, state:, host:, health:, rule:; config.lr>1e-4. Prefix a
 * term with `-` to exclude it; use quotes for spaces. All terms must match.
 */

import { number } from "../exact.js";

/** @type {Record<string, (row: RunRow) => string>} */
const FIELDS = {
  project: (row) => row.project,
  name: (row) => row.name,
  state: (row) => row.state,
  id: (row) => row.id,
  tag: (row) => row.tags.join("\n"),
  host: (row) => row.host ?? "",
  health: (row) => row.health,
  rule: (row) => row.reason?.rule ?? "",
};
/** @type {Record<string, (row: RunRow) => number | null>} */
const NUMBERS = {
  step: (row) => row.last_step,
  alerts: (row) => row.alerts,
  attempt: (row) => row.attempt,
  skipped: (row) => row.skipped,
  nonfinite: (row) => row.nonfinite,
  gpu: (row) => number(row.gpu_util),
};

/** @typedef {(id: string, key: string) => unknown} ConfigOf undefined if not set */

/**
 * Return whether the filter needs configurations, which are loaded on demand.
 *
 * @param {string} text
 */
export const asksConfig = (text) => /(^|[\s-])config\./i.test(text);

/**
 * Split into words; quoted words stay together.
 *
 * @param {string} text
 */
const words = (text) =>
  (text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []).map((word) => word.replaceAll('"', "")).filter(Boolean);

/**
 * @param {string} text
 * @param {ConfigOf} [config]
 * @returns {(row: RunRow) => boolean}
 */
export function runFilter(text, config = () => undefined) {
  const terms = words(text).map((word) =>
    word.length > 1 && word.startsWith("-") ? deny(term(word.slice(1), config)) : term(word, config),
  );
  return (row) => terms.every((holds) => holds(row));
}

/**
 * @param {(row: RunRow) => boolean} holds
 * @returns {(row: RunRow) => boolean}
 */
const deny = (holds) => (row) => !holds(row);

/**
 * @param {string} word
 * @param {ConfigOf} config
 * @returns {(row: RunRow) => boolean}
 */
function term(word, config) {
  const [, key = "", sign = "", wanted = ""] = /^([\w.\-/]+?)(>=|<=|!=|[:=<>])(.*)$/.exec(word) ?? [];
  const name = key.toLowerCase();
  const low = wanted.toLowerCase();
  if (name.startsWith("config.")) return (row) => holds(config(row.id, key.slice(7)), sign, wanted);
  if (sign && name in NUMBERS) return (row) => holds(NUMBERS[name](row), sign, wanted);
  if (sign === ":" && name in FIELDS) return (row) => FIELDS[name](row).toLowerCase().includes(low);
  const free = word.toLowerCase();
  return (row) =>
    `${row.project}\n${row.name}\n${row.id}\n${row.tags.join("\n")}`.toLowerCase().includes(free);
}

/**
 * Compare numbers as numbers, and everything else as text.
 *
 * @param {unknown} value
 * @param {string} sign
 * @param {string} wanted
 */
function holds(value, sign, wanted) {
  if (value === undefined || value === null) return false;
  const text = String(value).toLowerCase();
  const want = wanted.toLowerCase();
  const a = Number(value);
  const b = Number(wanted);
  const both = wanted !== "" && !Number.isNaN(a) && !Number.isNaN(b);
  if (sign === ":") return both && typeof value === "number" ? a === b : text.includes(want);
  const same = both ? a === b : text === want;
  if (sign === "=") return same;
  if (sign === "!=") return !same;
  if (!both) return false;
  return sign === ">" ? a > b : sign === "<" ? a < b : sign === ">=" ? a >= b : a <= b;
}
