/** The choice of smoothing: its kind, and how much, by slider or typed. */

import { el, say } from "../../browser/dom.js";
import { amountWithin, isWeight, MOST_POINTS, SMOOTHEST } from "../../lib/charts/smooth.js";
import { selectInput } from "../inputs.js";

/**
 * @typedef {import("../../lib/views/smoothing.js").SmoothKind} SmoothKind
 * @typedef {import("../../lib/views/smoothing.js").Smoothed} Chosen
 */

const KINDS = /** @type {const} */ ([
  ["none", "None"],
  ["ema", "EMA"],
  ["time", "Time-weighted EMA"],
  ["gaussian", "Gaussian"],
  ["mean", "Running mean"],
]);
/** Where the slider is placed when a kind is chosen while nothing is smoothed. */
const FIRST_SLIDE = 0.4;

export class SmoothingChoice {
  /** @param {{ view: () => Chosen, set: (change: Partial<Chosen>) => void }} source */
  constructor(source) {
    this.source = source;
    this.kind = selectInput(KINDS, "none", {
      "aria-label": "Kind of average",
      onchange: () => this.#chose(),
    });
    this.slider = /** @type {HTMLInputElement} */ (
      el("input", {
        type: "range",
        min: 0,
        max: 1,
        step: 0.01,
        value: 0,
        "aria-label": "Smoothing",
        oninput: () => this.#slid(),
      })
    );
    this.amount = /** @type {HTMLInputElement} */ (
      el("input.plain.amount", { type: "number", min: 0, onchange: () => this.#typed() })
    );
    this.unit = el("span.micro");
    this.node = el(
      "span.row.tight.smoothing",
      { title: "Applies to the drawn points. The raw line stays visible; marks are not smoothed." },
      el("span.soft", {}, "Smoothing"),
      this.kind,
      this.slider,
      this.amount,
      this.unit,
    );
  }

  #chose() {
    const kind = this.kind.value;
    if (kind === "none") return this.source.set({ smooth: 0 });
    const smoothing = /** @type {SmoothKind} */ (kind);
    const slide = Number(this.slider.value) || FIRST_SLIDE;
    this.source.set({ smoothing, smooth: amountAt(smoothing, slide) });
  }

  #slid() {
    this.source.set({ smooth: amountAt(this.source.view().smoothing, Number(this.slider.value)) });
  }

  #typed() {
    const { smoothing } = this.source.view();
    this.source.set({ smooth: amountWithin(smoothing, Number(this.amount.value)) });
    this.amount.value = String(this.source.view().smooth);
  }

  show() {
    const { smooth, smoothing } = this.source.view();
    this.kind.value = smooth ? smoothing : "none";
    if (Math.abs(amountAt(smoothing, Number(this.slider.value)) - smooth) > 0.001) {
      this.slider.value = String(slideAt(smoothing, smooth));
    }
    const weight = isWeight(smoothing);
    const unit = weight ? "Weight" : "Points";
    this.amount.hidden = this.unit.hidden = !smooth;
    this.amount.max = String(weight ? SMOOTHEST : MOST_POINTS);
    this.amount.step = weight ? "0.01" : "1";
    this.amount.setAttribute("aria-label", unit);
    if (document.activeElement !== this.amount) this.amount.value = String(smooth);
    say(this.unit, weight ? "" : "points");
    this.slider.setAttribute("aria-valuetext", smooth ? `${smooth} ${unit.toLowerCase()}` : "off");
  }
}

/**
 * Return the amount at a place of the slider. The differences are near its ends, so its scale is quadratic.
 *
 * @param {SmoothKind} kind
 * @param {number} slide 0 to 1
 */
function amountAt(kind, slide) {
  if (slide <= 0) return 0;
  if (!isWeight(kind)) return amountWithin(kind, Math.round(slide ** 2 * MOST_POINTS));
  return Math.round(amountWithin(kind, 1 - (1 - slide) ** 2) * 1000) / 1000;
}

/**
 * @param {SmoothKind} kind
 * @param {number} amount
 */
function slideAt(kind, amount) {
  if (amount <= 0) return 0;
  const slide = isWeight(kind) ? 1 - Math.sqrt(1 - amount) : Math.sqrt(amount / MOST_POINTS);
  return Math.round(slide * 100) / 100;
}
