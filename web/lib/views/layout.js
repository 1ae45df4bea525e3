/** The layout of run pages: pins, order, sizes, sections and custom charts. A project has one. */

import { readView, WHOLE, writeView } from "./runview.js";

/** @typedef {import("./runview.js").View} View */

const FIELDS = /** @type {const} */ (["pins", "order", "panels", "sizes", "placed", "shut", "open"]);
const KEYS = ["pin", "order", "panel", "size", "in", "shut", "open", "layout"];

/**
 * Return the fields of a layout.
 *
 * @param {View} view
 */
const picked = (view) =>
  /** @type {Pick<View, (typeof FIELDS)[number]>} */ (
    Object.fromEntries(FIELDS.map((field) => [field, view[field]]))
  );

/** The layout of a page that names none. */
export const STANDARD = picked(WHOLE);

/**
 * Return the layout of a view as it is saved: like its part of the address.
 *
 * @param {View} view
 */
export const layoutText = (view) => writeView({ ...WHOLE, ...picked(view) }).slice(1);

/**
 * Return the fields of a saved layout; what is not readable is ignored.
 *
 * @param {string} text
 */
export const readLayout = (text) => picked(readView(`?${text}`));

/**
 * Return whether the address of a view names a layout, so that it is not that of the project.
 *
 * @param {View} view
 */
export function namesLayout(view) {
  const asked = new URLSearchParams(writeView(view));
  return KEYS.some((key) => asked.has(key));
}
