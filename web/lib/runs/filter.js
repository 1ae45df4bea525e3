/**
 * The filter box: free text; project:, name:, tag:, state:, host:, health:, rule:; config.lr>1e-4; a minus
 * before a term denies it, quotes hold spaces. All terms must hold.
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

/** @typedef {(id: string, key: string) => unknown} ConfigOf undefined: not set */

/**
 * Whether the text asks for configurations, which are fetched only then.
 *
 * @param {string} text
 */
export const asksConfig = (text) => /(^|[\s-])config\./i.test(text);

/**
 * Words, those in quotes kept together.
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
 * Whether a value stands in that relation; numbers are compared as numbers, the rest as words.
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
