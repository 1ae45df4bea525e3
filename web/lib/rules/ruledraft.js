/** A rule being edited: the texts of the form, and the fields to send. */

import { short } from "../format.js";

/**
 * @typedef {{ id: string, title: string, series: string, reducer: string, window: string, comparison: string,
 *   limit: string, for: string, recover: string, keep_firing_for: string, severity: string, labels: string,
 *   projects: string, runs: string, tags: string, description: string, remedy: string, enabled: boolean }}
 *   Draft
 */

export const REDUCERS = /** @type {const} */ ([
  ["value", "newest value"],
  ["mean", "mean"],
  ["min", "minimum"],
  ["max", "maximum"],
  ["ratio", "ratio to the mean"],
  ["change", "change"],
  ["rate", "rate"],
  ["nonfinite", "non-finite count"],
  ["absent", "absence"],
]);
export const COMPARISONS = /** @type {const} */ ([
  ["<", "below"],
  ["<=", "at or below"],
  [">", "above"],
  [">=", "at or above"],
  ["==", "equal to"],
  ["!=", "not equal to"],
]);
export const UNITS = /** @type {const} */ ([
  ["steps", "steps"],
  ["s", "seconds"],
  ["min", "minutes"],
  ["h", "hours"],
  ["d", "days"],
]);
export const SEVERITIES = /** @type {const} */ ([
  ["info", "info"],
  ["warning", "warning"],
  ["critical", "critical"],
]);

/** @type {Draft} */
export const BLANK = {
  id: "",
  title: "",
  series: "loss",
  reducer: "mean",
  window: "20 steps",
  comparison: ">",
  limit: "",
  for: "0 steps",
  recover: "",
  keep_firing_for: "50 steps",
  severity: "warning",
  labels: "",
  projects: "",
  runs: "",
  tags: "",
  description: "",
  remedy: "",
  enabled: true,
};

/**
 * Return a new rule for a series, which only lacks a limit.
 *
 * @param {string} series
 * @param {string} project "" for all
 * @returns {Draft}
 */
export const draftFor = (series, project) => ({
  ...BLANK,
  series,
  projects: project,
  title: `${series} is too high`,
});

/**
 * @param {RuleFields} rule
 * @returns {Draft}
 */
export function draftOf(rule) {
  const list = (/** @type {string[]} */ names) => names.join(", ");
  const number = (/** @type {number | null} */ v) => (v === null ? "" : String(v));
  return {
    id: rule.id,
    title: rule.title,
    series: rule.series,
    reducer: rule.reducer,
    window: rule.window ?? "20 steps",
    comparison: rule.comparison ?? ">",
    limit: number(rule.limit),
    for: rule.for,
    recover: number(rule.recover),
    keep_firing_for: rule.keep_firing_for,
    severity: rule.severity,
    labels: Object.entries(rule.labels)
      .map(([name, value]) => `${name}=${value}`)
      .join("\n"),
    projects: list(rule.projects),
    runs: list(rule.runs),
    tags: list(rule.tags),
    description: rule.description,
    remedy: rule.remedy,
    enabled: rule.enabled,
  };
}

/**
 * Parse a number as users type it: narrow spaces, a true minus sign, 2^14, 1e-3. Anything else stays text,
 * and the server reports it.
 *
 * @param {string} text
 * @returns {number | string | null}
 */
export function numberOf(text) {
  const clean = text.replace(/[\s\u202f\u00a0]/g, "").replace(/^\u2212/, "-");
  if (!clean) return null;
  const power = /^(-?)2\^(-?\d{1,4})$/.exec(clean);
  const value = power ? (power[1] ? -1 : 1) * 2 ** Number(power[2]) : Number(clean);
  return Number.isFinite(value) ? value : text;
}

/**
 * "a, b" is two globs.
 *
 * @param {string} text
 */
export const listOf = (text) =>
  text
    .split(/[,\n]/)
    .map((each) => each.trim())
    .filter(Boolean);

/**
 * One "team=a" per line. A line without "=" is sent as a name without a value, which the server rejects.
 *
 * @param {string} text
 */
export const labelsOf = (text) =>
  Object.fromEntries(
    text
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean)
      .map((line) => {
        const at = line.indexOf("=");
        return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
  );

/**
 * The fields for the API; null for those that the reducer doesn't have.
 *
 * @param {Draft} draft
 * @returns {Record<string, unknown>}
 */
export function bodyOf(draft) {
  const absent = draft.reducer === "absent";
  return {
    id: draft.id.trim(),
    title: draft.title,
    series: draft.series.trim(),
    reducer: draft.reducer,
    window: draft.reducer === "value" ? null : draft.window,
    comparison: absent ? null : draft.comparison,
    limit: absent ? null : numberOf(draft.limit),
    for: draft.for,
    recover:
      absent || draft.comparison === "==" || draft.comparison === "!=" ? null : numberOf(draft.recover),
    keep_firing_for: draft.keep_firing_for,
    severity: draft.severity,
    labels: labelsOf(draft.labels),
    projects: listOf(draft.projects),
    runs: listOf(draft.runs),
    tags: listOf(draft.tags),
    description: draft.description,
    remedy: draft.remedy,
    enabled: draft.enabled,
  };
}

/**
 * "20 steps" becomes 20 and steps; "1 step" too.
 *
 * @param {string} text
 * @returns {[string, string]}
 */
export function splitSpan(text) {
  const found = /^([\d.]*)\s*([a-z]*)$/i.exec(text.trim());
  const unit = found?.[2] === "step" ? "steps" : (found?.[2] ?? "steps");
  return [found?.[1] ?? "", UNITS.some(([key]) => key === unit) ? unit : "steps"];
}

/**
 * @param {string} number
 * @param {string} unit
 */
export const joinSpan = (number, unit) => `${number.trim() || "0"} ${unit}`;

/**
 * Make a valid id from a title.
 *
 * @param {string} title
 * @param {Iterable<string>} taken
 */
export function idFrom(title, taken) {
  const base =
    title
      .toLowerCase()
      .normalize("NFKD")
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-+|-+$/g, "")
      .slice(0, 56)
      .replace(/-+$/, "") || "rule";
  const known = new Set(taken);
  let id = base;
  for (let n = 2; known.has(id); n++) id = `${base}-${n}`;
  return id;
}

const escaped = (/** @type {string} */ letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;

const quote = (/** @type {string} */ text) =>
  `"${text.replace(/["\\]/g, "\\$&").replace(/[\u0000-\u001f\u007f]/g, escaped)}"`;

/**
 * The same as TOML, for a file under version control.
 *
 * @param {Record<string, unknown>} body
 */
export function toml(body) {
  const usual = /** @type {Record<string, unknown>} */ ({
    reducer: "value",
    for: "0 steps",
    keep_firing_for: "0 steps",
    severity: "warning",
    enabled: true,
    title: "",
    description: "",
    remedy: "",
  });
  const value = (/** @type {unknown} */ v) =>
    typeof v === "string"
      ? quote(v)
      : Array.isArray(v)
        ? `[${v.map(quote).join(", ")}]`
        : typeof v === "object" && v
          ? `{ ${Object.entries(v)
              .map(([name, each]) => `${quote(name)} = ${quote(String(each))}`)
              .join(", ")} }`
          : String(v);
  const changed = Object.entries(body).filter(
    ([name, v]) =>
      v !== null &&
      v !== usual[name] &&
      !(Array.isArray(v) && !v.length) &&
      !(typeof v === "object" && v && !Array.isArray(v) && !Object.keys(v).length),
  );
  return ["[[rule]]", ...changed.map(([name, v]) => `${name} = ${value(v)}`)].join("\n");
}

/**
 * Describe the condition, for lists.
 *
 * @param {RuleFields} rule
 */
export function conditionText(rule) {
  const word = (
    /** @type {readonly (readonly [string, string])[]} */ choices,
    /** @type {string | null} */ key,
  ) => choices.find(([each]) => each === key)?.[1] ?? String(key);
  if (rule.reducer === "absent") return `no value of ${rule.series} for ${rule.window}`;
  const what =
    rule.reducer === "value"
      ? rule.series
      : `${word(REDUCERS, rule.reducer)} of ${rule.series} over ${rule.window}`;
  const duration = rule.for === "0 steps" ? "" : ` for ${rule.for}`;
  return `${what} ${word(COMPARISONS, rule.comparison)} ${short(rule.limit)}${duration}`;
}

/**
 * Describe the projects, runs and tags.
 *
 * @param {RuleFields} rule
 */
export function scopeText(rule) {
  const parts = /** @type {[string, string[]][]} */ ([
    ["project", rule.projects],
    ["run", rule.runs],
    ["tag", rule.tags],
  ]).filter(([, names]) => names.length);
  return parts.length ? parts.map(([what, names]) => `${what} ${names.join(" or ")}`).join(", ") : "all runs";
}
