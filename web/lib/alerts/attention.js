/** What needs attention: groups of the fleet, counts in the header, title of the tab. */

/** @type {Record<Severity, number>} */
const LEVEL = { critical: 2, warning: 1, info: 0 };

export const GROUPS = /** @type {const} */ ([
  {
    health: "critical",
    title: "Critical",
    note: "a critical alert is firing, or the run ended with one",
  },
  {
    health: "warning",
    title: "Warning",
    note: "warnings, or a training process is not responding",
  },
  { health: "ok", title: "Healthy", note: "no warning and no critical alert is open" },
  { health: "ended", title: "Ended", note: "without problems, or acknowledged" },
]);

/**
 * Return whether an alert is open: firing, or recovering.
 *
 * @param {AlertHead} alert
 */
export const isOpen = (alert) => alert.state === "firing" || alert.state === "recovering";

/**
 * Return whether the alert resolved, or its run ended.
 *
 * @param {Alert} alert
 */
export const isOver = (alert) => alert.state === "resolved" || alert.state === "ended";

/**
 * Return whether a resolved alert turned out to be wrong, or closed with its rule; its summary says so.
 *
 * @param {{ summary: string }} alert
 */
export const isWithdrawn = ({ summary }) =>
  summary.startsWith("Withdrawn: ") || summary.startsWith("Closed: ");

/**
 * Return how a resolved alert ended: it recovered, turned out to be wrong, or closed with its rule.
 *
 * @param {Alert} alert
 */
export const resolvedWord = (alert) =>
  !isWithdrawn(alert) ? "resolved" : alert.summary.startsWith("Closed") ? "closed" : "withdrawn";

/**
 * Return whether the alert needs no more attention: it resolved, or its run ended with it and it was
 * acknowledged. An alert of severity info needs no acknowledgement.
 *
 * @param {Alert} alert
 * @param {boolean} acknowledged
 */
export const isClosed = (alert, acknowledged) =>
  alert.state === "resolved" || (alert.state === "ended" && (acknowledged || alert.severity === "info"));

/**
 * Count the incidents that need attention: open ones, and those that were open when their run ended.
 *
 * @param {Iterable<import("./incidents.js").Incident>} incidents
 * @param {(incident: import("./incidents.js").Incident) => boolean} acknowledged
 * @returns {{ critical: number, warning: number, stalled: number, lost: number, firing: number }}
 */
export function badgeCounts(incidents, acknowledged) {
  const count = { critical: 0, warning: 0, stalled: 0, lost: 0, firing: 0 };
  for (const incident of incidents) {
    if (incident.state === "pending" || isClosed(incident, acknowledged(incident))) continue;
    const { severity } = incident;
    if (severity === "critical" || severity === "warning") count[severity]++;
    const open = incident.alerts.filter(({ state }) => state !== "resolved").map(({ rule }) => rule);
    if (open.includes("stalled")) count.stalled++;
    if (open.includes("trainer-lost")) count.lost++;
    if (incident.state === "firing") count.firing++;
  }
  return count;
}

/**
 * @param {string} page
 * @param {number} firing
 */
export const tabTitle = (page, firing) => `${firing ? `(${firing}) ` : ""}${page ? `${page} · ` : ""}tocsin`;

/**
 * Order alerts by urgency: open, ended, pending, resolved; then by severity; then newest first.
 *
 * @param {AlertHead} a
 * @param {AlertHead} b
 */
export function bySeverity(a, b) {
  return (
    stage(a) - stage(b) ||
    LEVEL[b.severity] - LEVEL[a.severity] ||
    (b.fired_ms ?? b.onset_ms ?? 0) - (a.fired_ms ?? a.onset_ms ?? 0) ||
    (a.id < b.id ? -1 : 1)
  );
}

/** @param {AlertHead} alert */
const stage = (alert) => (isOpen(alert) ? 0 : 1 + ["ended", "pending", "resolved"].indexOf(alert.state));

/**
 * Return whether to announce `next`: critical, just started to fire, and not from late records.
 *
 * @param {Alert | undefined} before
 * @param {Alert} next
 */
export const beginsFiring = (before, next) =>
  next.severity === "critical" &&
  next.state === "firing" &&
  !next.late &&
  !(before && isOpen(before) && before.severity === "critical");

/** @typedef {{ severity: Severity, from: number, to: number }} Band */

/**
 * Return the step ranges under alert, merged by severity. Critical ranges are cut out of warning ranges, so
 * that the tints don't overlap.
 *
 * @param {Alert[]} alerts
 * @param {number} end where the range of an open alert ends
 * @returns {Band[]}
 */
export function bands(alerts, end) {
  const critical = spans(alerts, "critical", end);
  return [...critical.reduce(without, spans(alerts, "warning", end)), ...critical];
}

/**
 * Return the alert whose range contains a step: the chosen alert if it does, else the most urgent.
 *
 * @param {Alert[]} alerts
 * @param {number} step
 * @param {string | null} chosen
 * @param {number} end where the range of an open alert ends
 * @returns {Alert | null}
 */
export function alertAt(alerts, step, chosen, end) {
  const there = alerts.filter(
    (alert) =>
      ["critical", "warning"].includes(alert.severity) &&
      spans([alert], alert.severity, end).some((span) => span.from <= step && step <= span.to),
  );
  return there.find((alert) => alert.id === chosen) ?? there.sort(bySeverity)[0] ?? null;
}

/**
 * @param {Alert[]} alerts
 * @param {Severity} severity
 * @param {number} end
 * @returns {Band[]} ascending and disjoint
 */
function spans(alerts, severity, end) {
  /** @type {Band[]} */
  const out = [];
  const all = alerts
    .filter((a) => a.severity === severity && a.state !== "pending" && a.onset_step !== null)
    .map((a) => ({
      severity,
      from: Number(a.onset_step),
      to: a.resolved_step ?? (isOpen(a) ? end : Number(a.fired_step ?? a.onset_step)),
    }));
  for (const span of all.sort((a, b) => a.from - b.from)) {
    const last = out[out.length - 1];
    if (last && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else out.push(span);
  }
  return out;
}

/**
 * @param {Band[]} bands
 * @param {Band} hole
 */
const without = (bands, hole) =>
  bands.flatMap((band) =>
    [
      { ...band, to: Math.min(band.to, hole.from) },
      { ...band, from: Math.max(band.from, hole.to) },
    ].filter((part) => part.to > part.from),
  );
