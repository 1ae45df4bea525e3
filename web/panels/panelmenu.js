/**
 * The menu of a chart: axis, order, size, data as a file.
 *
 * Data: the page answers through PanelHost. Draws: components/menu.js.
 */

import { blobOf, fileName, hand, handBlob } from "../browser/download.js";
import { menu } from "../components/menu.js";
import { isMetric } from "./metric.js";

/**
 * @typedef {import("../lib/charts/picture.js").AxisKind} AxisKind
 * @typedef {{ axis: (name: string) => AxisKind | null, setAxis: (name: string, kind: AxisKind | null) =>
 *   void, full: () => string | null, setFull: (name: string | null) => void, pins: () => string[], pin:
 *   (name: string) => void, move: (name: string, by: number) => void, run: () => string, plots: () =>
 *   import("./plot.js").Plots | null, csv?: (name: string) => string, table?: (name: string) => void, drop?:
 *   (name: string) => void }} PanelHost
 */

const AXES = /** @type {const} */ ([
  ["auto", "Auto"],
  ["linear", "Linear"],
  ["log", "Log (powers of ten)"],
  ["log2", "Log (powers of two)"],
]);

/**
 * @param {PanelHost} host
 * @param {() => import("./panel.js").Panel} panel
 */
export function panelMenu(host, panel) {
  return menu("Chart: axis, size, files", () => items(host, panel()));
}

/**
 * @param {PanelHost} host
 * @param {import("./panel.js").Panel} panel
 * @returns {import("../components/menu.js").Item[]}
 */
function items(host, panel) {
  const { name, drawing } = panel.kind;
  const now = host.axis(name) ?? drawing.axis;
  const full = host.full() === name;
  return [
    { head: "Value axis" },
    ...AXES.map(([kind, text]) => ({
      text,
      on: now === kind,
      act: () => host.setAxis(name, kind === drawing.axis ? null : kind),
    })),
    { head: "Chart" },
    {
      text: full ? "Leave full screen" : "Full screen",
      hint: full ? "Esc" : "",
      act: () => host.setFull(full ? null : name),
    },
    ...(isMetric(name) && !host.drop ? place(host, name) : []),
    ...one(host.drop, "Remove", name),
    ...one(host.table, "Show values", name),
    { head: "Download" },
    { text: "PNG", act: () => void image(host, panel, "png") },
    { text: "SVG", act: () => void image(host, panel, "svg") },
    ...one(
      host.csv && ((/** @type {string} */ each) => hand(String(host.csv?.(each)))),
      "CSV of all records in the window",
      name,
    ),
  ];
}

/**
 * @param {((name: string) => void) | undefined} act
 * @param {string} text
 * @param {string} name
 * @returns {import("../components/menu.js").Item[]}
 */
const one = (act, text, name) => (act ? [{ text, act: () => act(name) }] : []);

/**
 * @param {PanelHost} host
 * @param {string} name
 */
function place(host, name) {
  const pinned = host.pins().includes(name);
  return [
    { text: pinned ? "Unpin" : "Pin to the top", act: () => host.pin(name) },
    { text: "Move earlier", act: () => host.move(name, -1) },
    { text: "Move later", act: () => host.move(name, 1) },
  ];
}

/**
 * Isolate the name, so that right-to-left text doesn't reorder what follows.
 *
 * @param {PanelHost} host
 * @param {import("./panel.js").Panel} panel
 * @param {"png" | "svg"} format
 */
async function image(host, panel, format) {
  const address = await host
    .plots()
    ?.image(panel.plot, format, `\u2068${host.run()}\u2069: ${panel.kind.title}`);
  if (address) handBlob(blobOf(address), fileName([host.run(), panel.kind.name], format));
}
