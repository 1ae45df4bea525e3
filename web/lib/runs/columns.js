/**
 * Columns of the fleet table: title, width and sort key. Besides those of every run, any metric (`last:NAME`,
 * `min:NAME`, `max:NAME`, `mean10:NAME` for the mean of its last 10 values) and any setting (`config:KEY`)
 * is a column.
 */

import { number } from "../exact.js";

/**
 * @typedef {(id: string, key: string) => unknown} ConfigOf a setting of a run, undefined if not set
 *
 * @typedef {"last" | "min" | "max" | "mean" | "config"} OwnKind
 *
 * @typedef {{ kind: OwnKind, name: string, count?: string }} Own count: of how many newest values a mean is
 *
 * @typedef {{ id: string, title: string, width: string, by: (row: RunRow, config: ConfigOf) => number |
 *   string | null, down?: boolean, always?: boolean, vital?: boolean, own?: Own }} Column by: null sorts
 *   last; down: descending at the first click; own: added by a user
 */

/** At most this many columns are shown; a request for metrics names at most 20. */
export const MOST_COLUMNS = 40;
/** The most values of a mean. */
export const LONGEST_MEAN = 1_000;
/** @type {Record<OwnKind, (name: string, count: string) => string>} */
const TITLES = {
  last: (name) => name,
  min: (name) => `${name} min`,
  max: (name) => `${name} max`,
  mean: (name, count) => `${name} mean ${count}`,
  config: (name) => `config.${name}`,
};
const NARROWEST_PX = 48;
const WIDEST_PX = 1200;

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
  { id: "alerts", title: "Incidents", width: "6.4rem", by: urgency, down: true },
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
 * Return a column by its id, or null if there is none such.
 *
 * @param {string} id
 * @returns {Column | null}
 */
export function columnOf(id) {
  const own = ownOf(id);
  if (!own) return COLUMNS.find((each) => each.id === id) ?? null;
  const { kind, name, count = "" } = own;
  const by =
    kind === "config"
      ? (/** @type {RunRow} */ row, /** @type {ConfigOf} */ config) => sortable(config(row.id, name))
      : (/** @type {RunRow} */ row) => metricKey(row, own);
  return { id, title: TITLES[kind](name, count), width: "7rem", by, down: kind === "max", own };
}

/**
 * @param {string} id
 * @returns {Own | null}
 */
function ownOf(id) {
  const cut = id.indexOf(":");
  const [kind, name] = [id.slice(0, cut), id.slice(cut + 1)];
  if (cut < 0 || !name) return null;
  const count = /^mean([1-9]\d{0,3})$/.exec(kind)?.[1];
  if (count) return Number(count) <= LONGEST_MEAN ? { kind: "mean", name, count } : null;
  const known = kind !== "mean" && Object.hasOwn(TITLES, kind);
  return known ? { kind: /** @type {OwnKind} */ (kind), name } : null;
}

/**
 * Return a metric of a run: undefined if the run does not have it, NaN for the extremes of a series without a
 * finite value.
 *
 * @param {RunRow} row
 * @param {Own} own
 */
export function metricOf(row, { kind, name, count = "" }) {
  const found = row.metrics?.[name];
  if (!found || kind === "config") return undefined;
  if (kind === "mean") return number(found.means?.[count]) ?? undefined;
  return number(found[kind]) ?? number(found.last) ?? undefined;
}

/**
 * @param {RunRow} row
 * @param {Own} own
 */
function metricKey(row, own) {
  const value = metricOf(row, own);
  return value === undefined ? null : finiteOr(value);
}

/** @param {unknown} value */
function sortable(value) {
  if (value === undefined || value === null) return null;
  return typeof value === "number" ? value : String(value);
}

/**
 * Return the names of the metrics that columns show.
 *
 * @param {string[]} ids
 */
export function metricsOf(ids) {
  const own = ids.flatMap((id) => columnOf(id)?.own ?? []);
  return [...new Set(own.filter(({ kind }) => kind !== "config").map(({ name }) => name))];
}

/**
 * Return the means of newest values that columns show, as a request for rows takes them: `10:val_loss`.
 *
 * @param {string[]} ids
 */
export const meansOf = (ids) => [...new Set(ids.flatMap((id) => columnOf(id)?.own ?? []).flatMap(meanOf))];

/** @param {Own} own */
const meanOf = ({ name, count }) => (count ? [`${count}:${name}`] : []);

/**
 * @param {string[]} ids
 * @returns {Column[]} in this order, after the columns that are always shown
 */
export const columnsOf = (ids) => [
  ...COLUMNS.filter((column) => column.always && !ids.includes(column.id)),
  ...ids.flatMap((id) => columnOf(id) ?? []),
];

/**
 * Return the grid tracks: checkbox, columns, buttons.
 *
 * @param {Column[]} columns
 * @param {Record<string, number>} [widths] in px, of columns that were resized
 */
export const tracks = (columns, widths = {}) =>
  ["1.2rem", ...columns.map(({ id, width }) => (widths[id] ? `${widths[id]}px` : width)), "3.2rem"].join(" ");

/**
 * Return the least width of the table, for CSS: below it, the page scrolls.
 *
 * @param {Column[]} columns
 * @param {Record<string, number>} [widths]
 */
export function leastWidth(columns, widths = {}) {
  const parts = ["1.2rem", ...columns.map((column) => least(column, widths)), "3.2rem"];
  return `calc(${[...parts, `${parts.length - 1} * var(--s-4)`, "2 * var(--s-5)"].join(" + ")})`;
}

/**
 * @param {Column} column
 * @param {Record<string, number>} widths
 */
function least({ id, width }, widths) {
  if (widths[id]) return `${widths[id]}px`;
  return width.startsWith("minmax(") ? width.slice(7, width.indexOf("),") + 1) : width;
}

/**
 * Return the columns as text for an address: separated by commas, with `~` and the width in px if resized.
 *
 * @param {string[]} ids
 * @param {Record<string, number>} widths
 */
export const writeColumns = (ids, widths) =>
  ids
    .map((id) => id.replace(/[%,~]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`))
    .map((text, i) => (widths[ids[i]] ? `${text}~${widths[ids[i]]}` : text))
    .join();

/**
 * Read what `writeColumns` wrote; what is not a column is ignored.
 *
 * @param {string} text
 * @returns {{ columns: string[], widths: Record<string, number> }}
 */
export function readColumns(text) {
  /** @type {string[]} */
  const columns = [];
  /** @type {Record<string, number>} */
  const widths = {};
  for (const part of text.split(",").slice(0, MOST_COLUMNS)) {
    const [written, width] = part.split("~");
    const id = unescaped(written);
    if (!columnOf(id) || columns.includes(id)) continue;
    columns.push(id);
    if (/^\d{1,4}$/.test(width ?? "")) widths[id] = widthOf(Number(width));
  }
  return { columns, widths };
}

/** @param {string} text */
const unescaped = (text) =>
  text.replace(/%(25|2C|7E)/g, (_, code) => String.fromCharCode(parseInt(code, 16)));

/**
 * Return a width in px that a column can have.
 *
 * @param {number} px
 */
export const widthOf = (px) => Math.round(Math.min(WIDEST_PX, Math.max(NARROWEST_PX, px)));

/**
 * Return the columns with one of them before another one, or at the end.
 *
 * @param {string[]} ids
 * @param {string} id
 * @param {string | null} before
 */
export function moved(ids, id, before) {
  if (id === before) return ids;
  const rest = ids.filter((each) => each !== id);
  const at = before === null ? rest.length : rest.indexOf(before);
  return at < 0 ? ids : [...rest.slice(0, at), id, ...rest.slice(at)];
}
