/**
 * The kinds of panels of a run that are not drawn over steps: one module each in this folder, registered
 * here.
 * The kinds that are drawn over steps are in lib/charts/customchart.js.
 *
 * Data: none. Draws: each kind draws its own panel.
 */

import { customOf } from "../../lib/charts/customchart.js";

/**
 * `names` are the series to load, `values` the columns of its table, `axes` those that can be logarithmic,
 * with the names by which the page keeps how each is drawn.
 *
 * @typedef {{ kind: { name: string, title: string }, free: true, node: HTMLElement, names: string[],
 *   offer: (known: string[]) => void, draw: (layersOf: (name: string) => Layer[], kinds: Record<string,
 *   string>) => void, showAt: (step: number | null) => void, values: () =>
 *   import("../../components/runs/valuetable.js").Values | null, axes: () => FreeAxis[], isEmpty: () =>
 *   boolean, close: () => void }} FreePanel
 * @typedef {{ head: string, axis: "x" | "y", name: string, log: boolean, kinds: readonly (readonly
 *   [import("../../lib/charts/picture.js").AxisKind, string])[] }} FreeAxis log: as it is drawn now
 * @typedef {{ grip: Node, menuOf: (panel: any) => Node, media: import("./media.js").MediaSource }} Frame
 */

/** @typedef {new (name: string, frame: Frame) => FreePanel} Kind */

/** Each kind is loaded when a run first shows one. */
const KINDS = /** @type {Record<string, () => Promise<Kind>>} */ ({
  scatter: async () => (await import("./scatter.js")).ScatterPanel,
  media: async () => (await import("./media.js")).MediaPanel,
});
/** @type {Map<string, Kind>} */
const loaded = new Map();

/** @param {string} name */
const kindOf = (name) => customOf(name)?.kind ?? "";

/**
 * Load the kinds of these panels.
 *
 * @param {string[]} names
 * @returns {Promise<unknown> | null} null if they are loaded
 */
export function loadPanels(names) {
  const missing = new Set(
    names.map(kindOf).filter((kind) => Object.hasOwn(KINDS, kind) && !loaded.has(kind)),
  );
  if (!missing.size) return null;
  return Promise.all([...missing].map(async (kind) => loaded.set(kind, await KINDS[kind]())));
}

/**
 * Return the panel of a name, or null if it is drawn over steps.
 *
 * @param {string} name its kind is loaded
 * @param {Frame} frame
 * @returns {FreePanel | null}
 */
export function freePanel(name, frame) {
  const kind = loaded.get(kindOf(name));
  return kind ? new kind(name, frame) : null;
}
