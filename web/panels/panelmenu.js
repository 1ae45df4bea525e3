/**
 * The menu of a chart, and the box that a reader draws in it.
 *
 * Data: the page answers through PanelHost. Draws: components/menu.js.
 */

import { menu } from "../components/menu.js";
import { boxLimits, withValue } from "../lib/views/scales.js";

/**
 * @typedef {Record<string, import("../lib/views/sizes.js").Size>} Sizes
 * @typedef {import("./panel.js").Panel | import("./runpanels/index.js").FreePanel} AnyPanel
 * @typedef {import("../lib/views/scales.js").Scales} Scales
 * @typedef {{ scales: () => Scales, setScales: (change: Partial<Scales>) => void, full: () => string | null,
 *   setFull: (name: string | null) => void, pins: () => string[], pin: (name: string) => void, move: (name:
 *   string, by: number) => void, run: () => string, axis: () => string, plots: () =>
 *   import("./plot.js").Plots | null, csv?: (name: string) => string, table?: (name: string) => void, drop?:
 *   (name: string) => void, embed?: (title: string, chart: string, log: ("x" | "y")[]) => void, rule?: (name:
 *   string) => void, edit?: (name: string) => void, remove?: (name: string) => void, sizes?: () => Sizes,
 *   setSizes?: (sizes: Sizes) => void, moveInto?: (name: string) => void }} PanelHost
 *   axis: what the x axis shows; rule: starts a rule for a series; edit, remove: of composed charts
 */

/**
 * @param {PanelHost} host
 * @param {AnyPanel} panel
 */
export function panelMenu(host, panel) {
  return menu(`Chart menu of ${panel.kind.title}`, async () =>
    (await import("./panelmenuitems.js")).menuItems(host, panel),
  );
}

/**
 * Return the scales after a box was drawn in a plot, or after a double click, which resets it.
 *
 * @param {import("./panel.js").Panel[]} panels
 * @param {HTMLElement} plot
 * @param {[number, number] | null} range of the value axis; null: all values
 * @param {Scales} scales
 * @returns {Partial<Scales> | null} null if nothing changes
 */
export function boxed(panels, plot, range, { limits }) {
  const panel = panels.find((each) => each.plot === plot);
  if (!panel || (!range && !limits[panel.kind.name])) return null;
  return { limits: withValue(limits, panel.kind.name, range && boxLimits(range, panel.log)) };
}
