/**
 * The only module that uses Plotly. It draws charts, if they are visible, and reports where they were zoomed.
 * Until Plotly has loaded, charts are sketches (panels/sketch.js).
 *
 * Data: pictures from lib/charts/picture.js or lib/charts/compare.js, which panels/figure.js turns into
 * figures. Draws: a Plotly chart in the plot of a panel.
 */

import { color, layout, margins, traces } from "./figure.js";
import { onPinchZoom } from "./pinchzoom.js";
import { sketch } from "./sketch.js";
import { onWheelZoom } from "./wheelzoom.js";

const CONFIG = {
  displayModeBar: false,
  responsive: false,
  doubleClick: false,
  scrollZoom: false,
  showTips: false,
};

/**
 * Drawing time per frame; the rest waits for the next frame, so that pages with many charts stay responsive.
 */
const BUDGET_MS = 12;
/** Charts this near to the visible part of the page count as visible. */
const NEAR_PX = 120;
/**
 * After drawing, pause for this many times as long as it took, up to a maximum, so that slow machines stay
 * usable.
 */
const REST = 3;
const LONGEST_REST_MS = 1_500;

/**
 * Called with the width of the plot area in pixels.
 *
 * @typedef {(width: number) => import("./figure.js").Drawn | null} Draw
 *
 * @typedef {{ seen: boolean, bound: boolean, width: number, height: number, last: Draw | null }} PlotState
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
  /** @type {PlotlyStatic | null} */
  #plotly = null;
  /** @type {() => Promise<PlotlyStatic | null>} */
  #load = async () => null;
  /** @type {Promise<PlotlyStatic | null> | null} */
  #loading = null;

  /**
   * @param {PlotlyStatic | (() => Promise<PlotlyStatic | null>)} plotly a function loads it once charts are
   *   sketched; null: it reported why it can't, and sketches stay
   * @param {(range: [number, number] | null) => void} zoomed null: show everything
   * @param {(div: HTMLElement, range: [number, number] | null) => void} [scaled] the value axis of a plot, in
   *   log10 if logarithmic; null: show all values. Without it, only the x axis can be zoomed
   */
  constructor(plotly, zoomed, scaled) {
    if (typeof plotly === "function") this.#load = plotly;
    else this.#plotly = plotly;
    this.zoomed = zoomed;
    this.scaled = scaled;
    this.watcher = new IntersectionObserver((entries) => this.#sighted(entries), {
      rootMargin: `${NEAR_PX}px`,
    });
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
      onWheelZoom(div, Boolean(this.scaled), ({ axis, range }) =>
        axis === "yaxis" ? this.scaled?.(div, range) : this.zoomed(range),
      );
      onPinchZoom(div, (range) => {
        this.release(); // two fingers drag nothing that must not be drawn
        this.zoomed(range);
      });
      this.watcher.observe(div);
      this.sizes.observe(div);
    }
    this.#dirty.set(div, draw);
    this.#ask();
  }

  /** Draw what waits at the next frame, without the pause after the last drawing: the reader waits for it. */
  hurry() {
    clearTimeout(this.#rest);
    this.#rest = undefined;
    this.#ask();
  }

  /** @param {HTMLElement} div */
  drop(div) {
    this.watcher.unobserve(div);
    this.sizes.unobserve(div);
    this.#dirty.delete(div);
    if (this.#known.delete(div)) this.#plotly?.purge(div);
  }

  /**
   * Return the chart as an image address ("data:image/…").
   *
   * @param {HTMLElement} div
   * @param {"png" | "svg"} format
   * @param {string} title
   * @param {string} axis what the x axis shows
   * @returns {Promise<string | null>} null if it was never drawn
   */
  async image(div, format, title, axis) {
    const state = this.#known.get(div);
    if (!state?.last) return null;
    const width = Math.max(640, state.width);
    const height = Math.max(320, state.height);
    const { left, right } = margins();
    const drawn = state.last(width - left - right);
    if (!drawn) return null;
    const usual = layout({ ...drawn, xticks: true }, height);
    const ground = color("--surface");
    const head = {
      text: plain(title),
      x: 0,
      xref: "paper",
      xanchor: "left",
      font: { size: 13, color: color("--ink") },
    };
    const under = { text: plain(axis), standoff: 6, font: { size: 12, color: color("--ink-2") } };
    const plotly = this.#plotly ?? (await this.#loading);
    if (!plotly) return null;
    return plotly.toImage(
      {
        data: traces(drawn),
        layout: {
          ...usual,
          xaxis: { ...usual.xaxis, title: under },
          paper_bgcolor: ground,
          plot_bgcolor: ground,
          title: head,
          margin: { ...usual.margin, t: 36, b: usual.margin.b + 20 },
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

  /** Load Plotly after the frame with the first sketches, because compiling it would delay that frame. */
  #loadSoon() {
    this.#loading ??= new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
      .then(() => this.#load())
      .then((plotly) => this.#loaded(plotly));
  }

  /** @param {PlotlyStatic | null} plotly draws what was sketched */
  #loaded(plotly) {
    if (!plotly) return null;
    this.#plotly = plotly;
    for (const [div, { last }] of this.#known) if (last && !this.#dirty.has(div)) this.#dirty.set(div, last);
    this.hurry();
    return plotly;
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
      if (!this.#plotly) state.seen ||= isNear(target); // the watcher reports it only after this frame
      if (state.last && !this.#dirty.has(/** @type {HTMLElement} */ (target))) {
        this.#dirty.set(/** @type {HTMLElement} */ (target), state.last);
      }
    }
    if (this.#plotly) this.#ask();
    else this.#paint(); // within the frame in which the chart appears
  }

  #ask() {
    if (!this.#frame && !this.#rest && this.#dirty.size) {
      this.#frame = requestAnimationFrame(() => this.#paint());
    }
  }

  /** Draw what fits the time budget, in the order requested; the rest follows in the next frames. */
  #paint() {
    cancelAnimationFrame(this.#frame);
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
    const { width, height } = state;
    const frame = { ...layout(drawn, height, Boolean(this.scaled)), width, height };
    if (!this.#plotly) {
      this.#loadSoon();
      return div.replaceChildren(sketch(traces(drawn), frame));
    }
    if (!state.bound) div.replaceChildren();
    const done = this.#plotly.react(div, traces(drawn), frame, CONFIG);
    if (!state.bound) void done.then((plot) => this.#bind(plot, state));
  }

  /**
   * @param {PlotDiv} plot
   * @param {PlotState} state
   */
  #bind(plot, state) {
    if (state.bound) return;
    state.bound = true;
    plot.on("plotly_relayout", (change) => this.#relaid(plot, change));
    plot.on("plotly_doubleclick", () => {
      this.scaled?.(plot, null);
      this.zoomed(null);
    });
  }

  /**
   * @param {HTMLElement} plot
   * @param {Record<string, any>} change
   */
  #relaid(plot, change) {
    const values = rangeIn(change, "yaxis");
    if (values) this.scaled?.(plot, values);
    const range = rangeIn(change, "xaxis");
    if (range) this.zoomed(range);
  }
}

/** @param {Element} div */
function isNear(div) {
  const { top, bottom } = div.getBoundingClientRect();
  return bottom > -NEAR_PX && top < innerHeight + NEAR_PX;
}

/**
 * Return a text as plotly shows it, which reads some markup.
 *
 * @param {string} text
 */
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/**
 * @param {Record<string, any>} change of a layout
 * @param {string} axis
 * @returns {[number, number] | null}
 */
function rangeIn(change, axis) {
  const from = change[`${axis}.range[0]`] ?? change[`${axis}.range`]?.[0];
  const to = change[`${axis}.range[1]`] ?? change[`${axis}.range`]?.[1];
  return typeof from === "number" && typeof to === "number" && to > from ? [from, to] : null;
}
