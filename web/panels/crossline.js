/**
 * One vertical line through all panels. Moving the pointer only moves the line and updates the panel heads;
 * nothing is redrawn.
 *
 * Data: its host gives width, range and time axis. Draws: one element over the panels.
 */

import { say } from "../browser/dom.js";
import { isClick } from "../lib/charts/zoom.js";

/** A second click within this time is a double click, which resets the zoom and pins nothing. */
const DOUBLE_CLICK_MS = 280;

/**
 * label: what the line says; smallest: the least distance between two places of the line, 0 for any
 *
 * @typedef {{ width: () => number, range: () => [number, number], timeline: () =>
 *   Pick<import("../lib/charts/timeaxis.js").Timeline, "toX" | "toStep">, label: (step: number) => string,
 *   smallest: () => 0 | 1, margins: () => { left: number, right: number }, pointed: (step: number | null) =>
 *   void, pinned: (step: number | null) => void }} CrossSource
 */

/**
 * Call `clicked` with the step of a click on a plot within `host`. A drag or a double click is none.
 *
 * @param {HTMLElement} host
 * @param {(event: PointerEvent) => number | null} stepAt
 * @param {(step: number) => void} clicked
 */
export function onPlotClick(host, stepAt, clicked) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  host.addEventListener("pointerdown", (event) => {
    if (event.button || !(/** @type {Element} */ (event.target).closest(".plot"))) return;
    const step = stepAt(event);
    // Listen on window, because plotly covers the page while a button is pressed.
    addEventListener(
      "pointerup",
      (up) => {
        if (step === null || !isClick(event, up)) return;
        clearTimeout(timer);
        timer = setTimeout(() => clicked(step), DOUBLE_CLICK_MS);
      },
      { once: true },
    );
  });
  host.addEventListener("dblclick", () => clearTimeout(timer));
}

export class CrossLine {
  /** @type {number | null} */
  #pin = null;
  /** @type {number | null} */
  #hover = null;
  #frame = 0;

  /**
   * @param {HTMLElement} host
   * @param {HTMLElement} line
   * @param {HTMLElement} label
   * @param {CrossSource} source
   */
  constructor(host, line, label, source) {
    this.host = host;
    this.line = line;
    this.label = label;
    this.source = source;
    host.addEventListener("pointermove", (event) => this.#move(event));
    host.addEventListener("pointerleave", () => this.#hoverAt(null));
    host.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse") this.#move(event);
    });
    host.addEventListener("keydown", (event) => this.#key(event));
    onPlotClick(
      host,
      (event) => this.#stepAt(event),
      (step) => this.toggle(step),
    );
  }

  /** The step shown in the panel heads: the one under the pointer, else the pinned one. */
  get step() {
    return this.#hover ?? this.#pin;
  }

  /** The pinned step; null if the line is not pinned. */
  get pinned() {
    return this.#pin;
  }

  /** @param {number | null} step */
  pin(step) {
    this.#pin = step;
    this.#hover = null;
    this.refresh();
  }

  /**
   * A click pins the line; a click on the pinned step releases it.
   *
   * @param {number} step
   */
  toggle(step) {
    this.#set(step === this.#pin ? null : step);
  }

  release() {
    if (this.#pin !== null) this.#set(null);
  }

  /**
   * Show the step under a pointer elsewhere; null if the pointer left.
   *
   * @param {number | null} step
   */
  hover(step) {
    this.#hoverAt(step);
  }

  /** Redraw the line after the window or the data changed. */
  refresh() {
    const { step } = this;
    const { left, right } = this.source.margins();
    const [a, b] = this.source.range();
    const width = this.source.width() - left - right;
    const line = this.source.timeline();
    const px = step === null ? NaN : left + ((line.toX(step) - a) / (b - a)) * width;
    this.line.hidden = !(px >= left - 1 && px <= left + width + 1);
    if (!this.line.hidden) {
      this.line.style.setProperty("--x", `${px.toFixed(1)}px`);
      this.line.style.setProperty("--share", (px / Math.max(1, this.source.width())).toFixed(3));
      this.line.classList.toggle("pinned", this.#hover === null);
      say(this.label, this.source.label(Number(step)));
    }
    this.source.pointed(step);
  }

  /**
   * @param {PointerEvent} event
   * @returns {number | null}
   */
  #stepAt(event) {
    const { left, right } = this.source.margins();
    const [a, b] = this.source.range();
    const box = this.host.getBoundingClientRect();
    const width = box.width - left - right;
    const px = event.clientX - box.left - left;
    const step = this.rounded(this.source.timeline().toStep(a + (px / width) * (b - a)));
    return px < 0 || px > width || !Number.isFinite(step) ? null : step;
  }

  /**
   * Return the place of the line at a place of the axis.
   *
   * @param {number} step
   */
  rounded(step) {
    return this.source.smallest() ? Math.round(step) : step;
  }

  /** @param {PointerEvent} event */
  #move(event) {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#hoverAt(this.#stepAt(event)));
  }

  /** @param {number | null} step */
  #hoverAt(step) {
    cancelAnimationFrame(this.#frame);
    this.#hover = step;
    this.refresh();
  }

  /** @param {number | null} step */
  #set(step) {
    this.#pin = step;
    this.refresh();
    this.source.pinned(step);
  }

  /**
   * @param {KeyboardEvent} event arrow keys move the line by a 400th of the window, with Shift by one step
   */
  #key(event) {
    if (event.target !== this.host) return;
    if (event.key === "Escape" && this.#pin !== null) {
      event.stopPropagation(); // the next Escape leaves full screen
      return this.#set(null);
    }
    const way = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!way) return;
    event.preventDefault();
    const { toStep } = this.source.timeline();
    const [a, b] = this.source
      .range()
      .map(toStep)
      .sort((one, other) => one - other);
    const part = this.rounded((b - a) / 400);
    const stride = event.shiftKey
      ? this.source.smallest() || part / 10
      : Math.max(this.source.smallest(), part);
    this.#set(this.rounded(Math.min(b, Math.max(a, (this.step ?? (a + b) / 2) + way * stride))));
  }
}
