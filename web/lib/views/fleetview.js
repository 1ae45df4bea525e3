/** View state of the fleet page, stored in the address, and the list that results from it. */

import { GROUPS } from "../alerts/attention.js";
import { columnOf, readColumns, USUAL, writeColumns } from "../runs/columns.js";
import { readRotation } from "./rotation.js";

/** @typedef {"attention" | "project" | "state" | "tag" | "host" | "none"} Grouping */
/**
 * @typedef {{ q: string, sort: string, down: boolean, group: Grouping, columns: string[], widths:
 *   Record<string, number>, picked: string[], archived: boolean, deleted: boolean, kiosk: boolean,
 *   rotate: number, standard: boolean }} FleetView deleted: show runs that are scheduled for deletion;
 *   rotate: seconds for each project in kiosk mode, 0: all at once; standard: no default view is shown
 */
/** @typedef {{ head: string, title: string, note: string, count: number } | { row: RunRow }} Item */

export const GROUPINGS = /** @type {const} */ ([
  ["attention", "attention"],
  ["project", "project"],
  ["state", "state"],
  ["tag", "first tag"],
  ["host", "host"],
  ["none", "nothing"],
]);
/** What the address has as `view` for the page without a saved view, also where there is a default. */
const STANDARD = "standard";
/** The most runs that can be selected for bulk actions: as many as a comparison shows. */
export const MOST_PICKED = 1_000;

/**
 * @param {string} search
 * @returns {FleetView} unreadable values are ignored
 */
export function readFleet(search) {
  const asked = new URLSearchParams(search);
  const sort = asked.get("sort") ?? "";
  const group = asked.get("group") ?? "";
  const id = sort.replace(/^-/, "");
  const { columns, widths } = readColumns(asked.get("columns") ?? "");
  return {
    q: asked.get("q") ?? "",
    sort: columnOf(id) ? id : "",
    down: sort.startsWith("-"),
    group: GROUPINGS.some(([key]) => key === group) ? /** @type {Grouping} */ (group) : "attention",
    columns: columns.length ? columns : USUAL,
    widths,
    picked: asked.getAll("pick").slice(0, MOST_PICKED),
    archived: asked.get("archived") === "1",
    deleted: asked.get("deleted") === "1",
    kiosk: asked.get("kiosk") === "1",
    rotate: readRotation(asked.get("rotate")),
    standard: asked.get("view") === STANDARD,
  };
}

/**
 * @param {FleetView} view
 * @returns {string} "" or "?q=…"
 */
export function writeFleet(view) {
  const columns = writeColumns(view.columns, view.widths);
  const pairs = /** @type {[string, string][]} */ ([
    ["q", view.q],
    ["sort", view.sort && `${view.down ? "-" : ""}${view.sort}`],
    ["group", view.group === "attention" ? "" : view.group],
    ["columns", columns === USUAL.join() ? "" : columns],
    ["archived", view.archived ? "1" : ""],
    ["deleted", view.deleted ? "1" : ""],
    ["kiosk", view.kiosk ? "1" : ""],
    ["rotate", view.rotate ? String(view.rotate) : ""],
    ["view", view.standard ? STANDARD : ""],
    ...view.picked.map((id) => ["pick", id]),
  ]);
  const given = pairs.filter(([, value]) => value);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/**
 * Return which list a run belongs to. Runs scheduled for deletion have their own list, archived or not.
 *
 * @param {RunRow} row
 * @returns {"deleted" | "archived" | "fleet"}
 */
export const shelfOf = (row) =>
  row.deletion_ms !== null && row.deletion_ms !== undefined ? "deleted" : row.archived ? "archived" : "fleet";

/** @param {FleetView} view */
export const shelfShown = (view) => (view.deleted ? "deleted" : view.archived ? "archived" : "fleet");

/**
 * A click on a column head sorts in the column's direction, then reversed, then not at all.
 *
 * @param {FleetView} view
 * @param {string} id
 */
export function resorted(view, id) {
  const first = Boolean(columnOf(id)?.down);
  if (view.sort !== id) return { sort: id, down: first };
  return view.down === first ? { sort: id, down: !first } : { sort: "", down: false };
}

/**
 * Sort newest first, or by a column; unknown values come last in both directions.
 *
 * @param {FleetView} view
 * @param {import("../runs/columns.js").ConfigOf} [config]
 * @returns {(a: RunRow, b: RunRow) => number}
 */
export function order({ sort, down }, config = () => undefined) {
  const newest = (/** @type {RunRow} */ a, /** @type {RunRow} */ b) =>
    b.created_ms - a.created_ms || (a.id < b.id ? -1 : 1);
  const column = columnOf(sort);
  if (!column) return newest;
  return (a, b) => {
    const x = column.by(a, config);
    const y = column.by(b, config);
    if (x === y) return newest(a, b);
    if (x === null || y === null) return x === null ? 1 : -1;
    const less = typeof x === typeof y ? x < y : typeof x === "number";
    return (less ? -1 : 1) * (down ? -1 : 1);
  };
}

/**
 * @param {Grouping} group
 * @param {RunRow} row
 */
function groupOf(group, row) {
  if (group === "attention") return row.health;
  if (group === "tag") return row.tags[0] ?? "";
  return group === "none" ? "" : (row[group] ?? "");
}

/**
 * Return group heads and rows in page order: pinned runs first, then the groups.
 *
 * @param {RunRow[]} rows
 * @param {FleetView} view
 * @param {ReadonlySet<string>} pins
 * @param {import("../runs/columns.js").ConfigOf} [config]
 * @returns {Item[]}
 */
export function listing(rows, view, pins, config) {
  const sorted = [...rows].sort(order(view, config));
  const pinned = sorted.filter((row) => pins.has(row.id));
  /** @type {Map<string, RunRow[]>} */
  const groups = new Map(view.group === "attention" ? GROUPS.map(({ health }) => [health, []]) : []);
  for (const row of sorted) {
    if (pins.has(row.id)) continue;
    const key = groupOf(view.group, row);
    const list = groups.get(key);
    if (list) list.push(row);
    else groups.set(key, [row]);
  }
  const keys =
    view.group === "attention"
      ? [...groups.keys()]
      : [...groups.keys()].sort((a, b) => Number(!a) - Number(!b) || (a < b ? -1 : 1));
  const parts = [
    ...(pinned.length
      ? [{ head: "pinned", title: "Pinned", note: "by you, in this browser", rows: pinned }]
      : []),
    ...keys.map((key) => ({ ...titleOf(view.group, key), rows: groups.get(key) ?? [] })),
  ];
  return parts
    .filter((part) => part.rows.length)
    .flatMap(({ head, title, note, rows: each }) => [
      ...(view.group === "none" && head !== "pinned" ? [] : [{ head, title, note, count: each.length }]),
      ...each.map((row) => ({ row })),
    ]);
}

/**
 * @param {Grouping} group
 * @param {string} key
 */
function titleOf(group, key) {
  const known = group === "attention" ? GROUPS.find(({ health }) => health === key) : undefined;
  return known
    ? { head: key, title: known.title, note: known.note }
    : { head: `${group}:${key}`, title: key || (group === "tag" ? "No tag" : "–"), note: "" };
}
