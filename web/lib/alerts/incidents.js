/** Incidents: alerts that belong together, shown as one row, flag or count. */

import { int } from "../format.js";
import { isOpen } from "./attention.js";

/** @typedef {Alert & { lead: Alert, alerts: Alert[] }} Incident */

/** Alerts that began at most this many steps apart count as simultaneous, as on the server. */
const NEAR_STEPS = 100;
/** @type {Record<Severity, number>} */
const LEVEL = { critical: 2, warning: 1, info: 0 };
/** States of an incident, the first that any of its alerts has. */
const STATES = /** @type {const} */ (["firing", "recovering", "ended", "pending", "resolved"]);

/**
 * Return the incident of an alert; a pending alert is its own.
 *
 * @param {Alert} alert
 */
export const incidentId = (alert) => alert.incident || alert.id;

/**
 * Return one row per incident: its leading alert, with the id and the state of the incident. The lead is the
 * most severe alert; of those that began together, the one nearest to the cause.
 *
 * @param {Iterable<Alert>} alerts
 * @returns {Incident[]}
 */
export function incidentsOf(alerts) {
  /** @type {Map<string, Alert[]>} */
  const found = new Map();
  for (const alert of alerts) {
    const id = incidentId(alert);
    const mine = found.get(id);
    if (mine) mine.push(alert);
    else found.set(id, [alert]);
  }
  return [...found].map(([id, mine]) => merged(id, byCause(mine)));
}

/**
 * Return the runs of an incident: that of its lead first, then by name.
 *
 * @param {Incident} incident
 * @returns {{ id: string, name: string }[]}
 */
export function runsOf({ lead, alerts }) {
  const names = new Map(alerts.map((alert) => [alert.run_id, alert.run_name]));
  names.delete(lead.run_id);
  const others = [...names].map(([id, name]) => ({ id, name }));
  others.sort((a, b) => a.name.localeCompare(b.name));
  return [{ id: lead.run_id, name: lead.run_name }, ...others];
}

/**
 * Return "unet", or "unet and 2 more runs".
 *
 * @param {Incident} incident
 */
export function runNames(incident) {
  const [first, ...others] = runsOf(incident);
  if (!others.length) return first.name;
  return `${first.name} and ${others.length} more run${others.length === 1 ? "" : "s"}`;
}

/**
 * Return the alerts that stand for their incidents: the chosen one for its own, the lead for the others.
 *
 * @param {Iterable<Alert>} alerts
 * @param {string | null} chosen
 * @returns {Alert[]}
 */
export function leadsOf(alerts, chosen) {
  return incidentsOf(alerts).map(
    ({ alerts: mine, lead }) => mine.find((alert) => alert.id === chosen) ?? lead,
  );
}

/**
 * Order the alerts of one incident: most severe first; of those that began together, by cause.
 *
 * @param {Alert[]} alerts
 * @returns {Alert[]}
 */
function byCause(alerts) {
  const oldest = [...alerts].sort(
    (a, b) =>
      LEVEL[b.severity] - LEVEL[a.severity] ||
      (a.onset_ms ?? 0) - (b.onset_ms ?? 0) ||
      (a.id < b.id ? -1 : 1),
  );
  /** @type {Alert[][]} */
  const groups = [];
  for (const alert of oldest) {
    const group = groups.at(-1);
    if (group && group[0].severity === alert.severity && simultaneous(group[0], alert)) group.push(alert);
    else groups.push([alert]);
  }
  return groups.flatMap((group) => group.sort((a, b) => a.causal_order - b.causal_order));
}

/**
 * @param {Alert} first
 * @param {Alert} other
 */
const simultaneous = (first, other) =>
  first.onset_step !== null &&
  other.onset_step !== null &&
  Math.abs(other.onset_step - first.onset_step) <= NEAR_STEPS;

/**
 * @param {string} id
 * @param {Alert[]} alerts in the order of byCause
 * @returns {Incident}
 */
function merged(id, alerts) {
  const [lead] = alerts;
  const state = STATES.find((each) => alerts.some((alert) => alert.state === each)) ?? lead.state;
  const onsets = alerts
    .filter((alert) => alert === lead || (alert.run_id === lead.run_id && simultaneous(lead, alert)))
    .map((alert) => alert.onset_step)
    .filter((step) => step !== null);
  const over = isOpen({ ...lead, state })
    ? null
    : Math.max(0, ...alerts.map((alert) => alert.resolved_ms ?? 0)) || null;
  return {
    ...lead,
    id,
    state,
    onset_step: onsets.length ? Math.min(...onsets) : null,
    resolved_ms: over,
    late: alerts.every((alert) => alert.late),
    lead,
    alerts,
  };
}

/**
 * Return the marks of an incident: it is acknowledged with its lead, and silenced or inhibited if all of its
 * open alerts are.
 *
 * @param {Incident} incident
 * @param {(id: string) => AlertMarks} marksOf of an alert
 * @returns {AlertMarks}
 */
export function marksOfIncident(incident, marksOf) {
  const { lead, alerts } = incident;
  const open = alerts.filter(isOpen);
  const muted =
    open.length > 0 &&
    open.every(({ id }) => marksOf(id).silenced_by.length || marksOf(id).inhibited_by.length);
  const chosen = muted ? open.map(({ id }) => marksOf(id)) : [];
  return {
    id: incident.id,
    ack: marksOf(lead.id).ack,
    silenced_by: [...new Set(chosen.flatMap((marks) => marks.silenced_by))],
    inhibited_by: [...new Set(chosen.flatMap((marks) => marks.inhibited_by))],
  };
}

/**
 * Return a history in which an alert that fires again without a change of state became more severe, and a
 * notification names its channel first.
 *
 * @param {LifeLine[]} lines oldest first
 * @returns {LifeLine[]}
 */
export function worded(lines) {
  /** @type {Map<string, string>} */
  const states = new Map();
  return lines.map((line) => {
    if (line.kind === "notification") {
      const [state, ...channel] = line.text.split(": ");
      return channel.length ? { ...line, text: `${channel.join(": ")}, ${state}` } : line;
    }
    if (line.kind !== "transition") return line;
    const before = states.get(line.alert ?? "");
    states.set(line.alert ?? "", line.state);
    return before === line.state ? { ...line, state: "more severe" } : line;
  });
}

/**
 * Return a history in which several alerts of one rule have their series, else their onset, beside them.
 *
 * @param {LifeLine[]} lines
 * @param {Iterable<Alert>} alerts
 * @returns {LifeLine[]}
 */
export function distinguished(lines, alerts) {
  const all = [...alerts];
  const marks = new Map(all.map((alert) => [alert.id, markOf(alert, all)]));
  return lines.map((line) => {
    const mark = line.rule && marks.get(line.alert ?? "");
    return mark ? { ...line, text: line.text ? `${mark}: ${line.text}` : mark } : line;
  });
}

/**
 * @param {Alert} alert
 * @param {Alert[]} all
 */
function markOf(alert, all) {
  const same = all.filter(({ rule, run_id }) => rule === alert.rule && run_id === alert.run_id);
  if (same.length < 2) return "";
  const bySeries = new Set(same.map(({ subject }) => subject)).size === same.length;
  return bySeries ? alert.subject : alert.onset_step === null ? "" : `since step ${int(alert.onset_step)}`;
}

/**
 * Return the history of an incident with the same transition of several alerts as one line.
 *
 * @param {LifeLine[]} lines
 * @returns {LifeLine[]}
 */
export function together(lines) {
  /** @type {Map<string, LifeLine[]>} */
  const found = new Map();
  for (const line of lines) {
    const { kind, at_ms, state, text, alert } = line;
    const key = JSON.stringify(kind === "transition" ? [at_ms, state, text] : [alert, found.size]);
    const same = found.get(key);
    if (same) same.push(line);
    else found.set(key, [line]);
  }
  return [...found.values()].map(([first, ...more]) =>
    more.length ? { ...first, rule: "", text: `${more.length + 1} alerts. ${first.text}` } : first,
  );
}
