/**
 * The axes of a chart of runs: grid, ticks and labels.
 *
 * Data: axes of lib/charts/runcharts.js. Draws: SVG elements.
 */

import { svg } from "../../browser/dom.js";

const HEIGHT = 260;
const SIDES = { left: 60, right: 16, top: 10, bottom: 42 };
/** Pixels of a letter of a tick, about. */
const LETTER = 7;
/** Letters of a tick. */
const LONGEST = 14;

/**
 * Return where shares of the axes are, in pixels.
 *
 * @param {number} width
 */
export const placesIn = (width) => ({
  x: (/** @type {number} */ share) => SIDES.left + share * (width - SIDES.left - SIDES.right),
  y: (/** @type {number} */ share) => HEIGHT - SIDES.bottom - share * (HEIGHT - SIDES.top - SIDES.bottom),
});

/** @param {string} text */
const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

/**
 * @typedef {{ label: string, ticks: { at: number, text: string }[] }} AxisTicks
 *
 * @param {string} label of the chart
 * @param {number} width
 * @param {AxisTicks} across
 * @param {AxisTicks} up
 * @param {(Node | null)[]} marks
 */
export function chartFrame(label, width, across, up, marks) {
  const { x, y } = placesIn(width);
  const wide = x(1) - x(0);
  const longest = Math.max(1, ...across.ticks.map(({ text }) => cut(text).length));
  const every = Math.ceil((across.ticks.length * (longest + 1) * LETTER) / Math.max(1, wide));
  const xs = across.ticks.filter(({ at }, i) => at >= 0 && at <= 1 && i % every === 0);
  const ys = up.ticks.filter(({ at }) => at >= 0 && at <= 1);
  return svg(
    "svg",
    { class: "runchart-plot", width, height: HEIGHT, role: "img", "aria-label": label },
    svg(
      "g",
      { class: "grid" },
      ...ys.map(({ at }) => svg("line", { x1: x(0), x2: x(1), y1: y(at), y2: y(at) })),
      ...xs.map(({ at }) => svg("line", { x1: x(at), x2: x(at), y1: y(0), y2: y(1) })),
    ),
    ...ys.map(({ at, text }) => svg("text", { x: x(0) - 6, y: y(at) + 4, "text-anchor": "end" }, cut(text))),
    ...xs.map(({ at, text }) => svg("text", { x: x(at), y: y(0) + 16, "text-anchor": "middle" }, cut(text))),
    svg("text", { class: "name", x: x(1), y: HEIGHT - 6, "text-anchor": "end" }, across.label),
    ...marks,
  );
}
