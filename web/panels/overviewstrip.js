/**
 * The overview strip: the whole run with loss range, visible window, alerts and attempts. Drag on it to
 * choose a window.
 *
 * Data: the page passes it to draw(). Draws: SVG, from lib/charts/overviewshape.js.
 */

import { el, refill, say, svg } from "../browser/dom.js";
import { bands } from "../lib/alerts/attention.js";
import { overviewPath } from "../lib/charts/overviewshape.js";
import { int } from "../lib/format.js";

/** A drag shorter than this counts as a click, which moves the window there. */
const CLICK_PX = 5;

export class OverviewStrip {
  /** @param {{ zoomed: (range: [number, number]) => void, range: () => [number, number] }} source */
  constructor(source) {
    this.source = source;
    this.first = 0;
    this.end = 1;
    /** @type {number | null} */
    this.from = null;
    this.svg = svg("svg", {
      viewBox: "0 0 1000 40",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": "Whole run: range of the loss, visible window, alerts",
    });
    this.left = el("span", {}, "–");
    this.right = el("span", {}, "–");
    this.node = el(
      "section.card.overview",
      { "aria-label": "Whole run" },
      this.svg,
      el(
        "div.legend.micro",
        {},
        this.left,
        el("span.grow", {}, el("span.wide-only", {}, "loss, whole run · alerts above")),
        el("span.wide-only", {}, "drag to choose a window"),
        this.right,
      ),
    );
    this.svg.addEventListener("pointerdown", (event) => this.#down(event));
    this.svg.addEventListener("pointermove", (event) => this.#drag(event));
    this.svg.addEventListener("pointerup", (event) => this.#up(event));
    this.svg.addEventListener("pointercancel", () => {
      this.from = null;
    });
  }

  /**
   * @param {{ layers: Layer[], first: number, last: number, planned: number | null, alerts: Alert[],
   *   attempts: (number | null)[] }} run planned: null once no more steps come
   */
  draw({ layers, first, last, planned, alerts, attempts }) {
    this.first = first;
    this.end = Math.max(planned ?? 0, last, first + 1);
    const X = (/** @type {number} */ step) => this.#x(step);
    const done = Math.max(last, first);
    refill(
      this.svg,
      svg("path", { class: "band", d: overviewPath(layers, first, this.end) }),
      planned && planned > done ? svg("path", { class: "todo", d: `M${X(done)} 36H1000` }) : null,
      ...attempts
        .filter((step) => step !== null && step > first)
        .map((step) => svg("path", { class: "attempt", d: `M${X(Number(step))} 0V40` })),
      ...bands(alerts, done).map((band) =>
        svg("rect", {
          class: `alert ${band.severity}`,
          x: X(band.from),
          y: 0,
          width: Math.max(4, X(band.to) - X(band.from)),
          height: 3,
        }),
      ),
      (this.frame = svg("rect", { class: "window", y: 0, height: 40 })),
      (this.edges = svg("path", { class: "edge" })),
    );
    this.window(this.source.range());
    say(this.left, int(first));
    say(this.right, planned ? `${int(planned)} planned` : int(last));
  }

  /**
   * Move only the frame of the window.
   *
   * @param {[number, number]} range
   */
  window([a, b]) {
    const from = this.#x(Math.max(a, this.first));
    const to = this.#x(Math.min(b, this.end));
    this.frame?.setAttribute("x", String(from));
    this.frame?.setAttribute("width", String(Math.max(1, to - from)));
    this.edges?.setAttribute("d", `M${from} 0V40M${to} 0V40`);
  }

  /** @param {number} step */
  #x(step) {
    return Math.round(((step - this.first) / (this.end - this.first)) * 10000) / 10;
  }

  /** @param {PointerEvent} event */
  #step(event) {
    const box = this.svg.getBoundingClientRect();
    return (
      this.first + Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * (this.end - this.first)
    );
  }

  /** @param {PointerEvent} event */
  #down(event) {
    this.from = this.#step(event);
    this.downX = event.clientX;
    this.svg.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    if (this.from === null) return;
    const to = this.#step(event);
    this.window([Math.min(this.from, to), Math.max(this.from, to)]);
  }

  /** @param {PointerEvent} event */
  #up(event) {
    if (this.from === null) return;
    const from = this.from;
    const to = this.#step(event);
    const [a, b] = this.source.range();
    const half = (b - a) / 2;
    this.from = null;
    if (Math.abs(event.clientX - (this.downX ?? 0)) < CLICK_PX) {
      this.source.zoomed([Math.max(this.first, to - half), to + half]);
    } else this.source.zoomed([Math.min(from, to), Math.max(from, to)]);
  }
}
