/** Views of the fleet that are saved on the server: what is saved, and which one a page opens with. */

import { readFleet, writeFleet } from "./fleetview.js";

/** @typedef {import("./fleetview.js").FleetView} FleetView */
/** @typedef {Pick<SavedView, "filter" | "columns" | "sort" | "grouping">} Saved */

/**
 * Return what is saved of a view: filter, columns, order and grouping, as the address has them.
 *
 * @param {FleetView} view
 * @returns {Saved}
 */
export function savedOf(view) {
  const address = new URLSearchParams(writeFleet(view));
  return {
    filter: view.q,
    columns: address.get("columns") ?? "",
    sort: address.get("sort") ?? "",
    grouping: view.group,
  };
}

/**
 * Return the part of a view that a saved one sets. What is not readable is what a page shows without it.
 *
 * @param {Saved} saved
 * @returns {Pick<FleetView, "q" | "columns" | "widths" | "sort" | "down" | "group">}
 */
export function viewOf({ filter, columns, sort, grouping }) {
  const address = new URLSearchParams({ q: filter, columns, sort, group: grouping });
  const { q, columns: ids, widths, sort: by, down, group } = readFleet(`?${address}`);
  return { q, columns: ids, widths, sort: by, down, group };
}

/**
 * @param {Saved} a
 * @param {Saved} b
 */
export const isSame = (a, b) =>
  a.filter === b.filter && a.columns === b.columns && a.sort === b.sort && a.grouping === b.grouping;

/**
 * Return the view that an address opens: the one that it names as `view`, else the default. A filter by
 * nothing but a project opens the default of the project.
 *
 * @param {SavedView[]} views
 * @param {string} search
 * @returns {Pick<FleetView, "q" | "columns" | "widths" | "sort" | "down" | "group"> | null} null: the address
 *   says what to show
 */
export function opened(views, search) {
  const asked = new URLSearchParams(search);
  const named = asked.get("view");
  if (named !== null) {
    const found = views.find(({ id, name }) => id === named || name === named);
    return found ? viewOf(found) : null;
  }
  if (["columns", "sort", "group"].some((key) => asked.has(key))) return null;
  const q = (asked.get("q") ?? "").trim();
  const project = q ? projectOf(q) : "";
  const found = views.find((view) => view.is_default && view.project === project);
  if (!found) return null;
  const view = viewOf(found);
  return { ...view, q: view.q.includes(q) ? view.q : `${q} ${view.q}`.trim() };
}

/**
 * Return the project of a filter that names one and nothing else, or null.
 *
 * @param {string} q
 */
export function projectOf(q) {
  if (!q.startsWith("project:") && !q.startsWith("project=")) return null;
  const wanted = q.slice("project:".length);
  const name = wanted.replaceAll('"', "");
  const quoted = wanted.startsWith('"') && wanted.endsWith('"');
  return name && (quoted || !name.includes(" ")) ? name : null;
}
