/**
 * Turns a picture into a Plotly figure: traces and layout, in the colors of the current theme.
 *
 * Data: pictures from lib/charts/picture.js or lib/charts/compare.js. Draws: nothing; panels/plot.js does.
 */

import { isolated, MARK_WORDS } from "../lib/charts/marks.js";
import { railLabels } from "../lib/charts/picture.js";

/**
 * @typedef {import("../lib/charts/picture.js").Picture} Picture
 * @typedef {{ x: number, severity: Severity | "restart", fired: boolean, small?: boolean }} Edge
 *   small: a mark at the axis instead of a line over the full height
 * @typedef {{ severity: Severity | "expected", from: number, to: number }} Tint
 * @typedef {{ picture: Picture, bands: Tint[], edges: Edge[], xticks: boolean, color?: string, nticks?:
 *   number, ticks?: import("../lib/charts/timeticks.js").Ticks | null }} Drawn
 */

/**
 * Rows of marks as shares of the panel's height, and the shape of each kind. Shapes carry the meaning, not
 * colors.
 */
const RAIL = /** @type {Record<MarkKind, { row: number, symbol: string, token: string }>} */ ({
  nan: { row: 0.94, symbol: "circle-x-open", token: "--critical" },
  pinf: { row: 0.85, symbol: "triangle-up-open", token: "--critical" },
  ninf: { row: 0.85, symbol: "triangle-down-open", token: "--critical" },
  zero: { row: 0.1, symbol: "circle-open", token: "--warning" },
  negative: { row: 0.1, symbol: "diamond-open", token: "--warning" },
});
/** Share of the panel between the end of an axis and the middle of the marks of clipped values. */
const CLIPPED_IN = 0.035;
/** Height of the mark of an info alert, as a share of the panel. */
const SMALL_EDGE = 0.07;
/** Labels of the value axis whose middles are nearer touch each other. */
const LABEL_PX = 15;
const CLEAR = "rgba(0,0,0,0)";

/** @type {Map<string, string>} */
const colors = new Map();
addEventListener("themechange", () => colors.clear());

/**
 * Return the computed color of a token in the current theme.
 *
 * @param {string} name
 */
export function color(name) {
  const known = colors.get(name);
  if (known) return known;
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  colors.set(name, found);
  return found;
}

/**
 * @param {string} rgb
 * @param {number} share
 */
const alpha = (rgb, share) => `rgba(${(rgb.match(/[\d.]+/g) ?? []).slice(0, 3).join(",")},${share})`;

/** @type {{ left: number, right: number } | null} */
let sides = null;
addEventListener("resize", () => {
  sides = null;
});

/**
 * Return the margins of every plot area in pixels. They are equal for all plots, so that one cross line fits.
 * Cached by window size, because reading styles forces a layout.
 */
export function margins() {
  if (sides) return sides;
  const style = getComputedStyle(document.documentElement);
  sides = {
    left: parseFloat(style.getPropertyValue("--chart-left")) || 54,
    right: parseFloat(style.getPropertyValue("--chart-right")) || 14,
  };
  return sides;
}

/**
 * Ticks of the x axis: plotly's own for steps, ours for time.
 *
 * @param {Drawn} drawn
 */
function xTicks({ picture: { range }, nticks, ticks }) {
  if (!ticks) return { nticks: nticks ?? 8, tickformat: range[1] - range[0] < 8 ? "" : ",d" };
  const every = Math.max(1, Math.ceil(ticks.values.length / (nticks ?? 8)));
  return {
    tickmode: "array",
    tickvals: ticks.values.filter((_, i) => i % every === 0),
    ticktext: ticks.labels.filter((_, i) => i % every === 0),
  };
}

/** @param {Drawn} drawn */
function marginsOf({ xticks, ticks }) {
  const { left, right } = margins();
  const twoLines = ticks?.labels.some((text) => text.includes("<br>"));
  return { l: left, r: right, t: 6, b: xticks ? (twoLines ? 36 : 24) : 6, pad: 0 };
}

/**
 * Return the labels of the value axis, without one that would touch the label of marks beyond the axis.
 *
 * @param {Picture} picture
 * @param {number} high pixels between the ends of the axis
 */
function tickTexts(picture, high) {
  const { log, range, ticks, labels } = picture.plan;
  const [low, top] = range;
  const beyond = railLabels(picture).map(({ middle }) => middle);
  return labels.map((text, i) => {
    const share = ((log ? Math.log10(ticks[i]) : ticks[i]) - low) / (top - low);
    return beyond.some((middle) => Math.abs(share - middle) * high < LABEL_PX) ? "" : text;
  });
}

/**
 * @param {Drawn} drawn
 * @param {number} height of the panel in pixels
 * @param {boolean} [boxes] a box also zooms the value axis
 */
export function layout(drawn, height, boxes = false) {
  const { picture, bands, edges, xticks } = drawn;
  const ink = color("--ink-3");
  const axis = {
    color: ink,
    gridcolor: color("--grid"),
    gridwidth: 1,
    zeroline: false,
    showline: false,
    ticks: "",
    tickfont: { size: 12 },
    ticklabeloverflow: "allow",
    automargin: false,
  };
  const { plan, range } = picture;
  const margin = marginsOf(drawn);
  const touch = matchMedia("(pointer: coarse)").matches;
  return {
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
    paper_bgcolor: CLEAR,
    plot_bgcolor: CLEAR,
    margin,
    showlegend: false,
    hovermode: false,
    dragmode: touch ? false : "zoom",
    separators: ".\u202f",
    // With an explicit linear type, plotly doesn't try to parse values as dates. Labels cut by the edge are
    // left out.
    xaxis: {
      ...axis,
      type: "linear",
      ticklabeloverflow: "hide past div",
      range,
      autorange: false,
      showticklabels: xticks,
      ...xTicks(drawn),
    },
    yaxis: {
      ...axis,
      type: plan.log ? "log" : "linear",
      range: plan.range,
      autorange: false,
      fixedrange: touch || !boxes,
      tickmode: "array",
      tickvals: plan.ticks,
      ticktext: tickTexts(picture, height - margin.t - margin.b),
    },
    yaxis2: {
      overlaying: "y",
      type: "linear",
      range: [0, 1],
      autorange: false,
      fixedrange: true,
      visible: false,
    },
    shapes: [...bands.map(tint), ...edges.map(edgeLine), ...railLabels(picture).map(separator)],
    annotations: railLabels(picture).map(railLabel),
  };
}

/**
 * The line between the values and the marks beyond the axis, so that marks don't read as values.
 *
 * @param {import("../lib/charts/picture.js").RailLabel} label
 */
const separator = ({ edge }) => ({
  type: "line",
  xref: "paper",
  yref: "paper",
  x0: 0,
  x1: 1,
  y0: edge,
  y1: edge,
  layer: "below",
  line: { width: 1, color: color("--line-strong") },
});

/** @param {import("../lib/charts/picture.js").RailLabel} label */
const railLabel = ({ text, middle }) => ({
  text,
  xref: "paper",
  yref: "paper",
  x: 0,
  y: middle,
  xanchor: "right",
  yanchor: "middle",
  xshift: -3,
  showarrow: false,
  font: { size: 12, color: color("--ink-2") },
});

/** @param {Tint} band */
const tint = (band) => ({
  type: "rect",
  xref: "x",
  yref: "paper",
  x0: band.from,
  x1: band.to,
  y0: 0,
  y1: 1,
  layer: "below",
  line: { width: 0 },
  fillcolor: band.severity === "expected" ? alpha(color("--ink-3"), 0.1) : color(`--${band.severity}-band`),
});

/**
 * Lines where an alert began (solid if critical, else dashed), where it fired (dotted), and where an attempt
 * began (thin gray). Small marks at the axis: info alerts.
 *
 * @param {Edge} edge
 */
function edgeLine({ x, severity, fired, small }) {
  const upright = { type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1 };
  if (severity === "restart") {
    const line = { width: 1, color: color("--line-strong"), dash: "1px,3px" };
    return { ...upright, layer: "below", line };
  }
  if (small) return { ...upright, y1: SMALL_EDGE, line: { width: 3, color: color(`--${severity}-fill`) } };
  const dash = fired ? "2px,3px" : severity === "critical" ? "solid" : "6px,3px";
  return { ...upright, line: { width: fired ? 1 : 1.5, color: color(`--${severity}-fill`), dash } };
}

/** @param {Drawn} drawn */
export function traces({ picture, color: name }) {
  const ink = color(name ?? "--run-1");
  const out = [];
  for (const shade of [{ ...picture.envelope, ink: undefined }, ...picture.shades]) {
    if (shade.x.length) {
      out.push({
        type: "scatter",
        mode: "lines",
        x: shade.x,
        y: shade.y,
        fill: "toself",
        fillcolor: alpha(shade.ink ? color(shade.ink) : ink, shade.ink ? 0.14 : 0.24),
        line: { width: 0, simplify: false },
        hoverinfo: "skip",
      });
    }
  }
  for (const line of picture.lines) {
    out.push(lineTrace(line, line.ink ? color(line.ink) : ink, picture.steps));
  }
  for (const kind of /** @type {MarkKind[]} */ (Object.keys(MARK_WORDS))) {
    const marks = picture.marks.filter((mark) => mark.kind === kind);
    if (marks.length) {
      out.push(
        rail(
          kind,
          marks.map((mark) => mark.x),
          RAIL[kind].row,
          RAIL[kind].symbol,
          color(RAIL[kind].token),
          1.5,
        ),
      );
    }
  }
  for (const [kind, symbol, row] of clippedRows(picture.rails)) {
    const marks = picture.clipped.filter((mark) => mark.kind === kind);
    if (marks.length) {
      out.push(
        rail(
          kind,
          marks.map((mark) => mark.x),
          row,
          symbol,
          color("--ink-2"),
          0,
        ),
      );
    }
  }
  if (picture.skips.length) {
    out.push(rail("skipped", picture.skips, 0.035, "line-ns-open", color("--ink-2"), 1.2));
  }
  return out;
}

/**
 * Marks of clipped values: just within the ends of the axis.
 *
 * @param {import("../lib/charts/picture.js").Rails} rails
 */
const clippedRows = ({ top, bottom }) =>
  /** @type {const} */ ([
    ["above", "triangle-up", 1 - top - CLIPPED_IN],
    ["below", "triangle-down", bottom + CLIPPED_IN],
  ]);

/**
 * @param {import("../lib/charts/picture.js").Line} line
 * @param {string} ink
 * @param {boolean} held
 */
function lineTrace(line, ink, held) {
  const dots = line.lone ?? line.y.filter(Number.isFinite).length < 2;
  const sizes = dots ? 5 : isolated(line.y);
  const style = {
    width: line.faint ? 1 : 1.5,
    color: ink,
    shape: held ? "hv" : "linear",
    simplify: true,
    ...(line.dash ? { dash: line.dash } : {}),
  };
  return {
    type: "scatter",
    mode: dots ? "markers" : sizes ? "lines+markers" : "lines",
    x: line.x,
    y: line.y,
    marker: { size: sizes ?? 0, color: ink },
    opacity: line.raw ? 0.28 : line.faint ? 0.38 : 1,
    line: style,
    connectgaps: false,
    hoverinfo: "skip",
    cliponaxis: !dots, // the value of a run's only step is at the edge
  };
}

/**
 * @param {string} name
 * @param {number[]} x
 * @param {number} row
 * @param {string} symbol
 * @param {string} ink
 * @param {number} width
 */
const rail = (name, x, row, symbol, ink, width) => ({
  type: "scatter",
  name,
  mode: "markers",
  x,
  y: x.map(() => row),
  yaxis: "y2",
  marker: { symbol, size: 9, color: ink, line: { width, color: ink } },
  hoverinfo: "skip",
  cliponaxis: false,
});
