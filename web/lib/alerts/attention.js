/** What needs a person: the groups of the fleet, the lamps of the master bar, the title of the tab. */

/** @type {Record<Severity, number>} */
const HEIGHT = { critical: 2, warning: 1, info: 0 };

export const GROUPS = /** @type {const} */ ([
  { health: "critical", title: "Ringing", note: "a critical alert is firing" },
  { health: "warning", title: "Uneasy", note: "warnings, or a trainer gone quiet" },
  { health: "ok", title: "Quiet", note: "nothing to see, as it should be" },
  { health: "ended", title: "Ended", note: "finished or failed" },
]);

/**
 * Rings: firing, or firing until the recovery is sure.
 *
 * @param {Alert} alert
 */
export const isOpen = (alert) => alert.state === "firing" || alert.state === "recovering";

/**
 * @param {Iterable<Alert>} alerts
 * @returns {{ critical: number, warning: number, stalled: number, lost: number, firing: number }}
 */
export function lamps(alerts) {
  const count = { critical: 0, warning: 0, stalled: 0, lost: 0, firing: 0 };
  for (const alert of alerts) {
    if (!isOpen(alert)) continue;
    if (alert.severity === "critical" || alert.severity === "warning") count[alert.severity]++;
    if (alert.rule === "stalled") count.stalled++;
    if (alert.rule === "trainer-lost") count.lost++;
    if (alert.state === "firing") count.firing++;
  }
  return count;
}

/**
 * @param {string} page
 * @param {number} firing
 */
export const tabTitle = (page, firing) => `${firing ? `(${firing}) ` : ""}${page ? `${page} · ` : ""}tocsin`;

/**
 * Gravest first: open before pending before resolved, then severity, then the newest.
 *
 * @param {Alert} a
 * @param {Alert} b
 */
export function byGravity(a, b) {
  return (
    stage(a) - stage(b) ||
    HEIGHT[b.severity] - HEIGHT[a.severity] ||
    (b.fired_ms ?? b.onset_ms ?? 0) - (a.fired_ms ?? a.onset_ms ?? 0) ||
    (a.id < b.id ? -1 : 1)
  );
}

/** @param {Alert} alert */
const stage = (alert) => (isOpen(alert) ? 0 : alert.state === "pending" ? 1 : 2);

/**
 * Whether `next` is news that tolls: critical, just begun to fire, and not from an old spool.
 *
 * @param {Alert | undefined} before
 * @param {Alert} next
 */
export const tolls = (before, next) =>
  next.severity === "critical" &&
  next.state === "firing" &&
  !next.late &&
  !(before && isOpen(before) && before.severity === "critical");

/** @typedef {{ severity: Severity, from: number, to: number }} Band */

/**
 * Stretches of steps under alert, joined a severity; a warning's tint ends where a critical one begins, so
 * that tints never mix.
 *
 * @param {Alert[]} alerts
 * @param {number} end where an open alert's tint ends
 * @returns {Band[]}
 */
export function bands(alerts, end) {
  const critical = spans(alerts, "critical", end);
  return [...critical.reduce(without, spans(alerts, "warning", end)), ...critical];
}

/**
 * The alert whose stretch holds a step: the one that is read where it does, else the gravest.
 *
 * @param {Alert[]} alerts
 * @param {number} step
 * @param {string | null} chosen
 * @param {number} end where an open alert's stretch ends
 * @returns {Alert | null}
 */
export function alertAt(alerts, step, chosen, end) {
  const there = alerts.filter(
    (alert) =>
      ["critical", "warning"].includes(alert.severity) &&
      spans([alert], alert.severity, end).some((span) => span.from <= step && step <= span.to),
  );
  return there.find((alert) => alert.id === chosen) ?? there.sort(byGravity)[0] ?? null;
}

/**
 * @param {Alert[]} alerts
 * @param {Severity} severity
 * @param {number} end
 * @returns {Band[]} ascending, none over another
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
