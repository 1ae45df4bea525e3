/** The fleet's table as CSV: the listed runs and the shown columns, with exact values. */

import { csvOf } from "../csv.js";
import { number } from "../exact.js";
import { valueText } from "../flatten.js";
import { metricOf, secondsLeft } from "./columns.js";

/** @param {number | null | undefined} ms */
const time = (ms) => (ms === null || ms === undefined ? null : new Date(ms).toISOString());

/**
 * The values of columns that are not numbers of the same name in `last`.
 *
 * @type {Record<string, Record<string, (row: RunRow) => unknown>>}
 */
const FIELDS = {
  name: { id: (row) => row.id, project: (row) => row.project, name: (row) => row.name },
  alerts: {
    critical: (row) => row.severities?.critical ?? 0,
    warning: (row) => row.severities?.warning ?? 0,
    info: (row) => row.severities?.info ?? 0,
  },
  step: { step: (row) => row.last_step, planned_steps: (row) => row.planned_steps },
  rate: { steps_per_s: (row) => row.steps_per_s },
  eta: { seconds_left: secondsLeft },
  faults: { nonfinite: (row) => row.nonfinite, skipped: (row) => row.skipped },
  gpu: { gpu_util: (row) => number(row.gpu_util) },
  attempt: { attempt: (row) => row.attempt },
  state: { state: (row) => row.state },
  host: { host: (row) => row.host },
  created: { started: (row) => time(row.created_ms) },
  seen: { last_seen: (row) => time(row.last_seen_ms) },
};

/**
 * Return the fields of a column: name and value.
 *
 * @param {import("./columns.js").Column} column
 * @param {import("./columns.js").ConfigOf} config
 * @returns {[string, (row: RunRow) => unknown][]}
 */
function fieldsOf({ id, title, own }, config) {
  if (own?.kind === "config") return [[title, (row) => settingText(config(row.id, own.name))]];
  if (own) return [[title, (row) => metricOf(row, own)]];
  return Object.entries(FIELDS[id] ?? { [id]: (row) => number(row.last?.[id]) });
}

/** @param {unknown} value */
const settingText = (value) => (value === undefined || typeof value === "number" ? value : valueText(value));

/**
 * @param {RunRow[]} rows
 * @param {import("./columns.js").Column[]} columns
 * @param {import("./columns.js").ConfigOf} config
 */
export function fleetCsv(rows, columns, config) {
  const fields = columns.flatMap((column) => fieldsOf(column, config));
  return csvOf([fields.map(([name]) => name), ...rows.map((row) => fields.map(([, value]) => value(row)))]);
}
