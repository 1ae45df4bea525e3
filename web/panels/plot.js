/**
 * The only module that uses Plotly. It draws pictures, if they are visible.
 *
 * Data: pictures from lib/charts/picture.js or lib/charts/compare.js. Draws: a Plotly chart in the plot of a
 * panel.
 */

import { MARK_WORDS } from "../lib/charts/marks.js";

/**
 * @typedef {import("../lib/charts/picture.js").Picture} Picture
 * @typedef {{ x: number, severity: Severity | "restart", fired: boolean }} Edge
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
const CONFIG = {
  displayModeBar: false,
  responsive: false,
  doubleClick: false,
  scrollZoom: false,
  showTips: false,
};
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

/** @param {Drawn} drawn */
function layout(drawn) {
  const { picture, bands, edges, xticks } = drawn;
  const ink = color("--ink-3");
  const axis = {
    color: ink,
    gridcolor: color("--grid"),
    gridwidth: 1,
    zeroline: false,
    showline: false,
    ticks: "",
    tickfont: { size: 11 },
    ticklabeloverflow: "allow",
    automargin: false,
  };
  const { plan, range } = picture;
  const touch = matchMedia("(pointer: coarse)").matches;
  return {
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: ink },
    paper_bgcolor: CLEAR,
    plot_bgcolor: CLEAR,
    margin: marginsOf(drawn),
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
      fixedrange: true,
      tickmode: "array",
      tickvals: plan.ticks,
      ticktext: plan.labels,
    },
    yaxis2: {
      overlaying: "y",
      type: "linear",
      range: [0, 1],
      autorange: false,
      fixedrange: true,
      visible: false,
    },
    shapes: [...bands.map(tint), ...edges.map(edgeLine)],
  };
}

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
 * began (thin gray).
 *
 * @param {Edge} edge
 */
function edgeLine({ x, severity, fired }) {
  if (severity === "restart") {
    return {
      type: "line",
      xref: "x",
      yref: "paper",
      x0: x,
      x1: x,
      y0: 0,
      y1: 1,
      layer: "below",
      line: { width: 1, color: color("--line-strong"), dash: "1px,3px" },
    };
  }
  const dash = fired ? "2px,3px" : severity === "critical" ? "solid" : "6px,3px";
  return {
    type: "line",
    xref: "x",
    yref: "paper",
    x0: x,
    x1: x,
    y0: 0,
    y1: 1,
    line: { width: fired ? 1 : 1.5, color: color(`--${severity}-fill`), dash },
  };
}

/** @param {Drawn} drawn */
function traces({ picture, color: name }) {
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
  if (picture.skips.length) {
    out.push(rail("skipped", picture.skips, 0.035, "line-ns-open", color("--ink-2"), 1.2));
  }
  return out;
}

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
  };
}

/**
 * Return a marker size per point: a value between two gaps needs a dot, because no line shows it. Null
 * without such values.
 *
 * @param {number[]} y
 */
function isolated(y) {
  const alone = (/** @type {number} */ i) =>
    Number.isFinite(y[i]) && !Number.isFinite(y[i - 1]) && !Number.isFinite(y[i + 1]);
  return y.some((_, i) => alone(i)) ? y.map((_, i) => (alone(i) ? 5 : 0)) : null;
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

/**
 * Drawing time per frame; the rest waits for the next frame, so that pages with many charts stay responsive.
 */
const BUDGET_MS = 12;
/**
 * After drawing, pause for this many times as long as it took, up to a maximum, so that slow machines stay
 * usable.
 */
const REST = 1.5;
const LONGEST_REST_MS = 1_500;

/**
 * @typedef {{ seen: boolean, bound: boolean, width: number, height: number, last: Draw | null }} PlotState
 * @typedef {(width: number) => Drawn | null} Draw called with the width of the plot area in pixels
 */

/** All plots of a page: draws changed ones, a few per frame, if visible and not being dragged. */
export class Plots {
  /** @type {Map<HTMLElement, Draw>} */
  #dirty = new Map();
  /** @type {Map<HTMLElement, PlotState>} */
  #known = new Map();
  #frame = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #rest;
  #spent = 0;
  #held = false;

  /**
   * @param {PlotlyStatic} plotly
   * @param {(range: [number, number] | null) => void} zoomed null: show everything
   */
  constructor(plotly, zoomed) {
    this.plotly = plotly;
    this.zoomed = zoomed;
    this.watcher = new IntersectionObserver((entries) => this.#sighted(entries), { rootMargin: "120px" });
    this.sizes = new ResizeObserver((entries) => this.#resized(entries));
    this.hold = () => {
      this.#held = true;
    };
    this.release = () => {
      this.#held = false;
      this.#ask();
    };
    this.print = () => this.#all();
    addEventListener("beforeprint", this.print);
    addEventListener("pointerup", this.release);
    addEventListener("pointercancel", this.release);
  }

  /**
   * Draw `div` with `draw` at the next frame in which it is visible; the last call wins.
   *
   * @param {HTMLElement} div
   * @param {Draw} draw
   */
  draw(div, draw) {
    if (!this.#known.has(div)) {
      this.#known.set(div, { seen: false, bound: false, width: 0, height: 0, last: null });
      div.addEventListener("pointerdown", this.hold);
      this.watcher.observe(div);
      this.sizes.observe(div);
    }
    this.#dirty.set(div, draw);
    this.#ask();
  }

  /** @param {HTMLElement} div */
  drop(div) {
    this.watcher.unobserve(div);
    this.sizes.unobserve(div);
    this.#dirty.delete(div);
    if (this.#known.delete(div)) this.plotly.purge(div);
  }

  /**
   * Return the chart as an image address ("data:image/…").
   *
   * @param {HTMLElement} div
   * @param {"png" | "svg"} format
   * @param {string} title
   * @returns {Promise<string | null>} null if it was never drawn
   */
  image(div, format, title) {
    const state = this.#known.get(div);
    if (!state?.last) return Promise.resolve(null);
    const width = Math.max(640, state.width);
    const height = Math.max(320, state.height);
    const { left, right } = margins();
    const drawn = state.last(width - left - right);
    if (!drawn) return Promise.resolve(null);
    const plain = layout({ ...drawn, xticks: true });
    const ground = color("--surface");
    const head = {
      text: title.replaceAll("&", "&amp;").replaceAll("<", "&lt;"),
      x: 0,
      xref: "paper",
      xanchor: "left",
      font: { size: 13, color: color("--ink") },
    };
    return this.plotly.toImage(
      {
        data: traces(drawn),
        layout: {
          ...plain,
          paper_bgcolor: ground,
          plot_bgcolor: ground,
          title: head,
          margin: { ...plain.margin, t: 36 },
          width,
          height,
        },
      },
      { format, width, height, scale: format === "png" ? 2 : 1 },
    );
  }

  close() {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#rest);
    this.watcher.disconnect();
    this.sizes.disconnect();
    removeEventListener("beforeprint", this.print);
    removeEventListener("pointerup", this.release);
    removeEventListener("pointercancel", this.release);
    for (const div of [...this.#known.keys()]) this.drop(div);
  }

  /** @param {IntersectionObserverEntry[]} entries */
  #sighted(entries) {
    for (const entry of entries) {
      const state = this.#known.get(/** @type {HTMLElement} */ (entry.target));
      if (state) state.seen = entry.isIntersecting;
    }
    this.#ask();
  }

  /** @param {ResizeObserverEntry[]} entries */
  #resized(entries) {
    for (const { target, contentRect } of entries) {
      const state = this.#known.get(/** @type {HTMLElement} */ (target));
      const size = { width: Math.round(contentRect.width), height: Math.round(contentRect.height) };
      if (!state || (size.width === state.width && size.height === state.height)) continue;
      Object.assign(state, size);
      if (state.last && !this.#dirty.has(/** @type {HTMLElement} */ (target))) {
        this.#dirty.set(/** @type {HTMLElement} */ (target), state.last);
      }
    }
    this.#ask();
  }

  #ask() {
    if (!this.#frame && !this.#rest && this.#dirty.size) {
      this.#frame = requestAnimationFrame(() => this.#paint());
    }
  }

  /** Draw what fits the time budget, in the order requested; the rest follows in the next frames. */
  #paint() {
    this.#frame = 0;
    if (this.#held) return;
    const began = performance.now();
    let over = false;
    for (const [div, draw] of this.#dirty) {
      const state = this.#known.get(div);
      if (!state?.seen || !state.width || !state.height) continue;
      if ((over = performance.now() - began > BUDGET_MS)) break;
      this.#dirty.delete(div);
      this.#react(div, state, draw);
    }
    this.#spent += performance.now() - began;
    if (over) this.#ask();
    else this.#pause();
  }

  /** A print includes what is off screen, so draw everything that is pending. */
  #all() {
    for (const [div, draw] of [...this.#dirty]) {
      const state = this.#known.get(div);
      if (!state?.width || !state.height) continue;
      this.#dirty.delete(div);
      this.#react(div, state, draw);
    }
  }

  #pause() {
    const rest = Math.min(LONGEST_REST_MS, this.#spent * REST);
    this.#spent = 0;
    this.#rest = setTimeout(() => {
      this.#rest = undefined;
      this.#ask();
    }, rest);
  }

  /**
   * @param {HTMLElement} div
   * @param {PlotState} state
   * @param {Draw} draw
   */
  #react(div, state, draw) {
    state.last = draw;
    const { left, right } = margins();
    const drawn = draw(state.width - left - right);
    if (!drawn) return;
    const done = this.plotly.react(
      div,
      traces(drawn),
      { ...layout(drawn), width: state.width, height: state.height },
      CONFIG,
    );
    if (!state.bound) void done.then((plot) => this.#bind(plot, state));
  }

  /**
   * @param {PlotDiv} plot
   * @param {PlotState} state
   */
  #bind(plot, state) {
    if (state.bound) return;
    state.bound = true;
    plot.on("plotly_relayout", (change) => this.#relaid(change));
    plot.on("plotly_doubleclick", () => this.zoomed(null));
  }

  /** @param {Record<string, any>} change */
  #relaid(change) {
    const from = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0];
    const to = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
    if (typeof from === "number" && typeof to === "number" && to > from) this.zoomed([from, to]);
  }
}
