/** The layout of run pages: pins, order, sizes, sections and custom charts. A project has one. */

import { readView, WHOLE, writeView } from "./runview.js";

/** @typedef {import("./runview.js").View} View */

const FIELDS = /** @type {const} */ (["pins", "order", "panels", "sizes", "shut", "open"]);
const KEYS = ["pin", "order", "panel", "size", "shut", "open"];

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
 * Return whether an address names a layout of its own.
 *
 * @param {string} search
 */
export function namesLayout(search) {
  const asked = new URLSearchParams(search);
  return KEYS.some((key) => asked.has(key));
}
