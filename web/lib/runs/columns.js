/** Columns of the fleet table: title, width and sort key. */

import { number } from "../exact.js";

/**
 * @typedef {{ id: string, title: string, width: string, by: (row: RunRow) => number | string | null, down?:
 *   boolean, always?: boolean, vital?: boolean }} Column by: null sorts last; down: descending at the first
 *   click
 */

/**
 * @param {string} name
 * @returns {(row: RunRow) => number | null}
 */
const last = (name) => (row) => finiteOr(number(row.last?.[name]));

/**
 * Non-finite values sort after every number.
 *
 * @param {number | null} v
 */
const finiteOr = (v) => (v === null || Number.isFinite(v) ? v : Infinity);

/** @param {RunRow} row */
const urgency = (row) =>
  (row.severities?.critical ?? 0) * 1e6 + (row.severities?.warning ?? 0) * 1e3 + (row.severities?.info ?? 0);

/**
 * Return the seconds until the planned end, or null if unknown.
 *
 * @param {RunRow} row
 */
export function secondsLeft({ state, planned_steps, last_step, steps_per_s }) {
  if (state !== "running" || !planned_steps || !steps_per_s || last_step === null) return null;
  return Math.max(0, planned_steps - last_step - 1) / steps_per_s;
}

/** @type {Column[]} */
export const COLUMNS = [
  {
    id: "name",
    title: "Run",
    width: "minmax(var(--name-min, 14rem), 2fr)",
    by: (row) => row.name.toLowerCase(),
    always: true,
  },
  { id: "alerts", title: "Alerts", width: "6.4rem", by: urgency, down: true },
  { id: "step", title: "Step", width: "9.2rem", by: (row) => row.last_step, down: true },
  { id: "rate", title: "Steps/s", width: "4.6rem", by: (row) => row.steps_per_s, down: true },
  { id: "eta", title: "ETA", width: "8.6rem", by: secondsLeft },
  {
    id: "loss",
    title: "Loss",
    width: "minmax(var(--vital-min, 7rem), 1.15fr)",
    by: last("loss"),
    vital: true,
  },
  {
    id: "grad_norm",
    title: "Grad norm (log)",
    width: "minmax(var(--vital-min, 7rem), 1.15fr)",
    by: last("grad_norm"),
    vital: true,
  },
  {
    id: "scale",
    title: "Loss scale (log₂)",
    width: "minmax(var(--vital-min, 7rem), 1.15fr)",
    by: last("scale"),
    vital: true,
  },
  {
    id: "lr",
    title: "Learning rate",
    width: "minmax(var(--vital-min, 7rem), 1.15fr)",
    by: last("lr"),
    vital: true,
  },
  {
    id: "faults",
    title: "Non-finite",
    width: "6.6rem",
    by: (row) => row.nonfinite * 1e9 + row.skipped,
    down: true,
  },
  {
    id: "gpu",
    title: "GPU",
    width: "3.6rem",
    by: (row) => (row.state === "running" ? finiteOr(number(row.gpu_util)) : null),
  },
  { id: "attempt", title: "Attempt", width: "4.6rem", by: (row) => row.attempt, down: true },
  { id: "state", title: "State", width: "5.4rem", by: (row) => row.state },
  { id: "host", title: "Host", width: "7rem", by: (row) => row.host ?? "" },
  { id: "created", title: "Started", width: "6rem", by: (row) => row.created_ms, down: true },
  { id: "seen", title: "Last seen", width: "5.4rem", by: (row) => row.last_seen_ms, down: true },
];
export const USUAL = ["name", "alerts", "step", "loss", "grad_norm", "scale", "lr", "faults", "gpu", "seen"];

/**
 * @param {string[]} ids
 * @returns {Column[]} in page order, including the columns that are always shown
 */
export const columnsOf = (ids) => COLUMNS.filter((column) => column.always || ids.includes(column.id));

/**
 * Return the grid tracks: checkbox, columns, buttons.
 *
 * @param {Column[]} columns
 */
export const tracks = (columns) => ["1.2rem", ...columns.map((column) => column.width), "3.2rem"].join(" ");
