/**
 * View state of the alerts page, stored in the address: which incidents are listed, in which groups, and the
 * counts by state.
 */

import { bySeverity, isClosed, isOpen } from "./attention.js";

export const STATES = /** @type {const} */ (["open", "mine", "silenced", "pending", "resolved", "all"]);
/** @typedef {typeof STATES[number]} InboxState */
/**
 * @typedef {{ state: InboxState, severity: string, project: string, rule: string, q: string, alert: string |
 *   null }} InboxView
 */
/** @typedef {(id: string) => AlertMarks} MarksOf */
/** @typedef {import("./incidents.js").Incident} Incident */
/** @typedef {{ key: string, title: string, note: string, items: Incident[] }} Group */

/** @type {InboxView} */
export const PLAIN = { state: "open", severity: "", project: "", rule: "", q: "", alert: null };

/**
 * @param {string} search
 * @returns {InboxView} unreadable values are ignored
 */
export function readInbox(search) {
  const asked = new URLSearchParams(search);
  const state = asked.get("state");
  const text = (/** @type {string} */ key) => asked.get(key) ?? "";
  return {
    state: STATES.find((each) => each === state) ?? "open",
    severity: text("severity"),
    project: text("project"),
    rule: text("rule"),
    q: text("q"),
    alert: asked.get("alert"),
  };
}

/**
 * @param {InboxView} view
 * @returns {string} "" or "?state=…"
 */
export function writeInbox(view) {
  const pairs = Object.entries(view).filter(
    ([key, value]) => value && !(key === "state" && value === "open"),
  );
  return pairs.length ? `?${new URLSearchParams(/** @type {[string, string][]} */ (pairs))}` : "";
}

/**
 * Return whether notifications are off for this alert: silenced, or inhibited by another alert.
 *
 * @param {AlertMarks} marks
 */
export const isMuted = (marks) => marks.silenced_by.length > 0 || marks.inhibited_by.length > 0;

/**
 * An acknowledgement holds the token and the user; a session holds only its name.
 *
 * @param {AlertMarks} marks
 * @param {string} me
 */
export const isMine = (marks, me) =>
  marks.ack !== null && (marks.ack.by === me || marks.ack.by.endsWith(` ${me}`));

/** @type {Record<InboxState, (alert: Alert, marks: AlertMarks, me: string) => boolean>} */
const HOLDS = {
  open: (alert, marks) => !isClosed(alert, marks.ack !== null) && !isMuted(marks),
  mine: (alert, marks, me) => alert.state !== "resolved" && isMine(marks, me),
  silenced: (alert, marks) => !isClosed(alert, marks.ack !== null) && isMuted(marks),
  pending: (alert) => alert.state === "pending",
  resolved: (alert, marks) => isClosed(alert, marks.ack !== null),
  all: () => true,
};

/**
 * Count incidents by state.
 *
 * @param {Incident[]} alerts
 * @param {MarksOf} marksOf of an incident
 * @param {string} me
 * @returns {Record<InboxState, number>}
 */
export function tally(alerts, marksOf, me) {
  const counts = /** @type {Record<InboxState, number>} */ (
    Object.fromEntries(STATES.map((state) => [state, 0]))
  );
  for (const alert of alerts) {
    const marks = marksOf(alert.id);
    for (const state of STATES) if (HOLDS[state](alert, marks, me)) counts[state]++;
  }
  return counts;
}

/** @type {Record<string, (alert: Alert) => string>} */
const FIELDS = {
  severity: (a) => a.severity,
  rule: (a) => a.rule,
  project: (a) => a.project,
  run: (a) => `${a.run_name} ${a.run_id}`,
  subject: (a) => a.subject,
  state: (a) => a.state,
};

/**
 * Match words and fields (`rule:spike`); all must match. Prefix a term with `-` to exclude it.
 *
 * @param {string} text
 * @returns {(alert: Alert) => boolean}
 */
export function textFilter(text) {
  const words = (text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? [])
    .map((word) => word.replaceAll('"', ""))
    .filter(Boolean);
  const terms = words.map((word) =>
    word.length > 1 && word.startsWith("-")
      ? { deny: true, holds: term(word.slice(1)) }
      : { deny: false, holds: term(word) },
  );
  return (alert) => terms.every(({ deny, holds }) => holds(alert) !== deny);
}

/**
 * @param {string} word
 * @returns {(alert: Alert) => boolean}
 */
function term(word) {
  const [, key = "", wanted = ""] = /^(\w+):(.*)$/.exec(word) ?? [];
  const of = FIELDS[key.toLowerCase()];
  const low = wanted.toLowerCase();
  if (of) return (alert) => of(alert).toLowerCase().includes(low);
  const free = word.toLowerCase();
  return (alert) =>
    `${alert.rule}\n${alert.rule.replaceAll("-", " ")}\n${alert.run_name}\n${alert.project}\n${alert.summary}`
      .toLowerCase()
      .includes(free);
}

/**
 * Filter by everything except state, so that the counts by state stay correct.
 *
 * @param {InboxView} view
 * @returns {(alert: Alert) => boolean}
 */
export function narrows(view) {
  const text = textFilter(view.q);
  return (alert) =>
    (!view.severity || alert.severity === view.severity) &&
    (!view.project || alert.project === view.project) &&
    (!view.rule || alert.rule === view.rule) &&
    text(alert);
}

/**
 * Group incidents, most urgent first. The chosen one stays listed even if it no longer matches, because the
 * user is reading it.
 *
 * @param {Incident[]} alerts already filtered
 * @param {InboxView} view
 * @param {MarksOf} marksOf
 * @param {string} me
 * @returns {Group[]}
 */
export function grouped(alerts, view, marksOf, me) {
  const shown = alerts
    .filter(
      (alert) =>
        alert.alerts.some(({ id }) => id === view.alert) || HOLDS[view.state](alert, marksOf(alert.id), me),
    )
    .sort(bySeverity);
  const acknowledged = (/** @type {Incident} */ alert) => marksOf(alert.id).ack !== null;
  const muted = (/** @type {Incident} */ alert) => isMuted(marksOf(alert.id));
  const groups = [
    {
      key: "now",
      title: "Active",
      note: "not acknowledged",
      items: shown.filter((a) => isOpen(a) && !acknowledged(a) && !muted(a)),
    },
    {
      key: "ended",
      title: "Run ended",
      note: "while an alert was firing; acknowledge the incident to close it",
      items: shown.filter((a) => a.state === "ended" && !isClosed(a, acknowledged(a))),
    },
    {
      key: "acknowledged",
      title: "Acknowledged",
      note: "no reminders; you'll hear when they resolve",
      items: shown.filter((a) => isOpen(a) && acknowledged(a) && !muted(a)),
    },
    {
      key: "muted",
      title: "Silenced",
      note: "or inhibited by another alert: no notifications",
      items: shown.filter((a) => isOpen(a) && muted(a)),
    },
    {
      key: "waiting",
      title: "Pending",
      note: "condition met, but not yet long enough to fire",
      items: shown.filter((a) => a.state === "pending"),
    },
    {
      key: "resolved",
      title: "Closed",
      note: "resolved, or acknowledged after the run ended; newest first",
      items: shown
        .filter((a) => isClosed(a, acknowledged(a)))
        .sort((a, b) => (b.resolved_ms ?? 0) - (a.resolved_ms ?? 0)),
    },
  ];
  return groups.filter((group) => group.items.length);
}

/**
 * Return the neighbor `by` places away, or the first if the chosen one is gone.
 *
 * @param {string[]} ids
 * @param {string | null} id
 * @param {number} by
 */
export function neighbour(ids, id, by) {
  const at = id === null ? -1 : ids.indexOf(id);
  if (at < 0) return ids[0] ?? null;
  return ids[Math.min(ids.length - 1, Math.max(0, at + by))];
}

/**
 * Return the alert to show after this one left its place (acknowledged, silenced): the one that moves into
 * its position.
 *
 * @param {string[]} before
 * @param {string[]} after
 * @param {string} id
 */
export function successor(before, after, id) {
  const left = new Set(after);
  const at = before.indexOf(id);
  return (
    before.slice(at + 1).find((each) => left.has(each)) ??
    before
      .slice(0, Math.max(0, at))
      .reverse()
      .find((each) => left.has(each)) ??
    after[0] ??
    null
  );
}
