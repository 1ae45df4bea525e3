/** The layout of run pages: pins, order, sizes, sections, custom charts and axes. A project has one. */

import { readView, USUAL, WHOLE, writeView } from "./runview.js";
import { axesWithin } from "./scales.js";

/**
 * @typedef {import("./runview.js").View} View
 */
/**
 * The layout of one of the pages: `text` is how it is saved, like its part of the address; `read` is the
 * reverse; `laidOut` returns a view with a saved layout, except for what the address names.
 *
 * @template V
 * @typedef {{ page: "run" | "compare", words: string, standard: Partial<V>, read: (text: string) =>
 *   Partial<V>, text: (view: V) => string, laidOut: (view: V, search: string, text: string) => V }}
 *   LayoutKind
 */

const FIELDS = /** @type {const} */ ([
  "pins",
  "order",
  "panels",
  "sizes",
  "placed",
  "shut",
  "open",
  "x",
  "logX",
  "axes",
]);
const KEYS = {
  places: ["pin", "order", "panel", "size", "in", "shut", "open", "layout"],
  axis: ["x", "logx"],
};

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
export const layoutText = (view) => writeView({ ...WHOLE, ...picked(view), usual: USUAL }).slice(1);

/**
 * Return the fields of a saved layout; what is not readable is ignored.
 *
 * @param {string} text
 */
export const readLayout = (text) => picked(readView(`?${text}`));

/**
 * Return a view with the saved layout of its project. What its address names, it keeps: the places of charts,
 * the x axis, or the value axis of a chart.
 *
 * @param {View} view
 * @param {string} search
 * @param {string} text
 * @returns {View}
 */
export function laidOut(view, search, text) {
  const { x, logX, axes, ...places } = readLayout(text);
  const asked = new URLSearchParams(search);
  const usualAxes = view.standard ? {} : axes;
  const names = (/** @type {string[]} */ keys) => keys.some((key) => asked.has(key));
  return {
    ...view,
    ...(names(KEYS.places) ? {} : places),
    ...(names(KEYS.axis) ? {} : { x, logX }),
    axes: axesWithin(asked, usualAxes),
    usual: { x, logX, axes: usualAxes },
  };
}

/** @type {LayoutKind<View>} */
export const RUN_LAYOUT = {
  page: "run",
  words: "Everyone who opens a run of this project sees these charts and axes first.",
  standard: STANDARD,
  read: readLayout,
  text: layoutText,
  laidOut,
};
