/** The config check of a run: the newest result of each check, from the newest attempt. */

import { number } from "../exact.js";

/**
 * @typedef {{ check: string, severity: Severity, subject: string, expected: string, got: string, remedy:
 *   string, step: number | null }} CheckFinding
 */
/** @typedef {{ findings: CheckFinding[], unseen: string[], checks: number, tookMs: number }} ConfigCheck */

const GRAVITY = ["critical", "warning", "info"];

/** @param {unknown} value */
const text = (value) => (typeof value === "string" ? value : "");
/**
 * @param {unknown} value
 * @returns {unknown[]}
 */
const list = (value) => (Array.isArray(value) ? value : []);

/**
 * Null if there was no config check (older hook, explicit mode, imported run).
 *
 * @param {RunEvent[]} events oldest first
 * @returns {ConfigCheck | null}
 */
export function configCheckOf(events) {
  const checks = events.filter((event) => event.kind === "preflight");
  if (!checks.length) return null;
  const attempt = Math.max(...checks.map((event) => event.attempt));
  const least = Math.min(...checks.filter((event) => event.attempt === attempt).map((event) => event.rank));
  const newest = checks.filter((event) => event.attempt === attempt && event.rank === least);
  /** @type {Map<string, CheckFinding[]>} */
  const answers = new Map();
  for (const { data, step } of newest) {
    for (const check of list(data.checks)) answers.set(text(check), []);
    for (const one of list(data.findings)) {
      const found = finding(one, step);
      if (found) answers.set(found.check, [...(answers.get(found.check) ?? []), found]);
    }
  }
  const findings = [...answers.values()]
    .flat()
    .sort((a, b) => GRAVITY.indexOf(a.severity) - GRAVITY.indexOf(b.severity));
  const unseen = [
    ...new Set(newest.flatMap(({ data }) => list(data.not_checkable).map(text).filter(Boolean))),
  ];
  const tookMs = newest.reduce(
    (sum, { data }) => sum + (typeof data.took_ms === "number" ? data.took_ms : 0),
    0,
  );
  return { findings, unseen, checks: answers.size, tookMs };
}

/**
 * The data may be malformed: findings without a check are dropped, an unknown severity becomes info.
 *
 * @param {unknown} value
 * @param {number | null} step
 * @returns {CheckFinding | null}
 */
function finding(value, step) {
  if (!value || typeof value !== "object") return null;
  const one = /** @type {Record<string, unknown>} */ (value);
  const severity = text(one.severity);
  if (!text(one.check)) return null;
  return {
    check: text(one.check),
    severity: /** @type {Severity} */ (GRAVITY.includes(severity) ? severity : "info"),
    subject: text(one.subject),
    expected: text(one.expected),
    got: text(one.got),
    remedy: text(one.remedy),
    step,
  };
}

/**
 * Return what the hook costs: the newest values of the series `hook/...`; null if not measured yet.
 *
 * @param {SeriesRow[]} series
 * @returns {{ us: number, percent: number } | null}
 */
export function overheadOf(series) {
  const last = (/** @type {string} */ name) =>
    number(series.find((each) => each.name === name)?.last ?? null) ?? NaN;
  const us = last("hook/cost_us");
  const percent = last("hook/share_percent");
  return Number.isFinite(us) ? { us, percent } : null;
}
