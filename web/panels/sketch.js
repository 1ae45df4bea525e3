/**
 * Draws a figure as SVG where Plotly will draw it, so that charts are seen while Plotly loads.
 *
 * Data: figures from panels/figure.js. Draws: what panels/plot.js puts into a plot until Plotly is there.
 */

import { pathOf } from "../lib/charts/path.js";

/** @typedef {ReturnType<typeof import("./figure.js").layout> & { width: number, height: number }} Layout */

/** The shapes of marks as characters. */
const GLYPHS = /** @type {Record<string, string>} */ ({
  "circle-x-open": "⊗",
  "triangle-up-open": "△",
  "triangle-down-open": "▽",
  "circle-open": "○",
  "diamond-open": "◇",
  "triangle-up": "▲",
  "triangle-down": "▼",
  "line-ns-open": "|",
});
/** Pixels between the labels of the value axis and the plot area. */
const STANDOFF = 1;
/** Of the height of a letter, so that a label's middle is at its value. */
const BASELINE = 0.35;

/**
 * Return an element. That of browser/dom.js knows the addresses of pages, which a report file has not.
 *
 * @param {string} tag
 * @param {Record<string, string | number | null | undefined>} attributes
 * @param {...(Node | string)} kids
 */
function svg(tag, attributes, ...kids) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...kids);
  return node;
}

/**
 * Return the drawing. The ticks of the x axis are left to Plotly, which chooses them.
 *
 * @param {any[]} traces
 * @param {Layout} layout
 */
export function sketch(traces, { width, height, margin, font, xaxis, yaxis, shapes, annotations }) {
  const wide = Math.max(1, width - margin.l - margin.r);
  const high = Math.max(1, height - margin.t - margin.b);
  const [low, top] = yaxis.range;
  const across = (/** @type {number} */ x) =>
    ((x - xaxis.range[0]) / (xaxis.range[1] - xaxis.range[0])) * wide;
  const up = (/** @type {number} */ share) => (1 - share) * high;
  const down = (/** @type {number} */ y) =>
    up(((yaxis.type === "log" ? Math.log10(y) : y) - low) / (top - low));
  const area = { across, down, up, wide };
  const label = (/** @type {string} */ text, /** @type {number} */ y, /** @type {string} */ fill) =>
    svg("text", { x: margin.l - STANDOFF, y: margin.t + y + font.size * BASELINE, fill }, text);
  const ticks = yaxis.tickvals
    .map((value, i) => ({ text: yaxis.ticktext[i], y: down(value) }))
    .filter(({ y }) => y >= 0 && y <= high);
  return svg(
    "svg",
    {
      class: "sketch",
      width,
      height,
      "font-family": font.family,
      "font-size": font.size,
      "text-anchor": "end",
    },
    ...ticks.map(({ text, y }) => label(text, y, font.color)),
    ...annotations.map(({ text, y, font: { color } }) => label(text, up(y), color)),
    svg(
      "svg",
      { x: margin.l, y: margin.t, width: wide, height: high, "text-anchor": "middle" },
      ...ticks.map(({ y }) => svg("path", { d: `M0 ${y.toFixed(1)}h${wide}`, stroke: yaxis.gridcolor })),
      ...shapes.map((shape) => background(shape, area)),
      ...traces.flatMap((trace) => (trace.yaxis === "y2" ? marks(trace, area) : [line(trace, area)])),
    ),
  );
}

/**
 * Places in the plot area, in pixels.
 *
 * @typedef {{ across: (x: number) => number, down: (y: number) => number, up: (share: number) => number,
 *   wide: number }} Area
 */

/**
 * @param {any} trace
 * @param {Area} area
 */
function line({ x, y, mode, fill, fillcolor, line: style, marker, opacity }, { across, down }) {
  const dots = mode === "markers";
  return svg("path", {
    d: pathOf({ x, y, held: style.shape === "hv" }, across, down),
    fill: fill ? fillcolor : "none",
    stroke: fill ? "none" : style.color,
    "stroke-width": dots ? marker.size : style.width,
    "stroke-dasharray": style.dash?.replaceAll("px", ""),
    "stroke-linecap": dots ? "round" : null,
    "stroke-linejoin": "round",
    opacity,
  });
}

/**
 * @param {any} trace
 * @param {Area} area
 * @returns {Element[]}
 */
const marks = ({ x, y, marker: { symbol, size, color } }, { across, up }) =>
  x.map((/** @type {number} */ at, /** @type {number} */ i) =>
    svg(
      "text",
      { x: across(at).toFixed(1), y: (up(y[i]) + size * BASELINE).toFixed(1), fill: color },
      GLYPHS[symbol] ?? "•",
    ),
  );

/**
 * @param {any} shape
 * @param {Area} area
 */
function background({ type, xref, x0, x1, y0, y1, fillcolor, line: style }, { across, up, wide }) {
  const [from, to] = [x0, x1].map((x) => (xref === "paper" ? x * wide : across(x)));
  if (type === "rect") {
    return svg("rect", { x: from, y: up(y1), width: to - from, height: up(y0) - up(y1), fill: fillcolor });
  }
  return svg("path", {
    d: `M${from} ${up(y0)}L${to} ${up(y1)}`,
    stroke: style.color,
    "stroke-width": style.width,
    "stroke-dasharray": style.dash === "solid" ? null : style.dash?.replaceAll("px", ""),
  });
}
