/** The fleet's columns: what each is called, how wide it is, and by what it sorts. */

import { number } from "../exact.js";

/**
 * @typedef {{ id: string, title: string, width: string, by: (row: RunRow) => number | string | null, down?:
 *   boolean, always?: boolean, vital?: boolean }} Column by: null sorts last; down: greatest first at the
 *   first click
 */

/**
 * @param {string} name
 * @returns {(row: RunRow) => number | null}
 */
const last = (name) => (row) => finiteOr(number(row.last?.[name]));

/**
 * What is not finite is worse than any number.
 *
 * @param {number | null} v
 */
const finiteOr = (v) => (v === null || Number.isFinite(v) ? v : Infinity);

/** @param {RunRow} row */
const gravity = (row) =>
  (row.severities?.critical ?? 0) * 1e6 + (row.severities?.warning ?? 0) * 1e3 + (row.severities?.info ?? 0);

/**
 * Seconds to the planned end; null where that is not known.
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
    width: "minmax(14rem, 2fr)",
    by: (row) => row.name.toLowerCase(),
    always: true,
  },
  { id: "alerts", title: "Alerts", width: "6.4rem", by: gravity, down: true },
  { id: "step", title: "Step", width: "9.2rem", by: (row) => row.last_step, down: true },
  { id: "rate", title: "Steps/s", width: "4.6rem", by: (row) => row.steps_per_s, down: true },
  { id: "eta", title: "ETA", width: "8.6rem", by: secondsLeft },
  { id: "loss", title: "Loss", width: "minmax(7rem, 1.15fr)", by: last("loss"), vital: true },
  {
    id: "grad_norm",
    title: "Grad norm (log)",
    width: "minmax(7rem, 1.15fr)",
    by: last("grad_norm"),
    vital: true,
  },
  { id: "scale", title: "Loss scale (log₂)", width: "minmax(7rem, 1.15fr)", by: last("scale"), vital: true },
  { id: "lr", title: "Learning rate", width: "minmax(7rem, 1.15fr)", by: last("lr"), vital: true },
  {
    id: "faults",
    title: "Faults",
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
  { id: "created", title: "Began", width: "6rem", by: (row) => row.created_ms, down: true },
  { id: "seen", title: "Last seen", width: "5.4rem", by: (row) => row.last_seen_ms, down: true },
];
export const USUAL = ["name", "alerts", "step", "loss", "grad_norm", "scale", "lr", "faults", "gpu", "seen"];

/**
 * @param {string[]} ids
 * @returns {Column[]} in the page's order, with those that are always there
 */
export const columnsOf = (ids) => COLUMNS.filter((column) => column.always || ids.includes(column.id));

/**
 * Tracks of the grid: a place to tick, the columns, a place for buttons.
 *
 * @param {Column[]} columns
 */
export const tracks = (columns) => ["1.2rem", ...columns.map((column) => column.width), "3.2rem"].join(" ");
