/** The bar above the charts of the comparison: x axis, smoothing, difference to the baseline, more series. */

import { el } from "../../browser/dom.js";
import { menu } from "../menu.js";

/** @typedef {import("../../lib/views/compareview.js").CompareView} CompareView */

const ALIGN = /** @type {const} */ ([
  ["step", "Step"],
  ["relative", "Relative time"],
  ["tokens", "Tokens"],
]);
/** As many metrics as the menu lists. */
const MOST_LISTED = 300;

export class CompareBar {
  /**
   * `metrics` returns the names of series that can be added.
   *
   * @param {{ view: () => CompareView, set: (change: Partial<CompareView>) => void,
   *   metrics: () => string[] }} source
   */
  constructor(source) {
    this.source = source;
    const { set, view } = source;
    this.xs = ALIGN.map(([kind, text]) =>
      el(
        "button",
        { type: "button", "data-x": kind, onclick: () => set({ x: kind, from: null, to: null, at: null }) },
        text,
      ),
    );
    this.slider = /** @type {HTMLInputElement} */ (
      el("input", {
        type: "range",
        min: 0,
        max: 0.99,
        step: 0.01,
        value: 0,
        "aria-label": "Smoothing",
        oninput: () => set({ smooth: Number(this.slider.value) }),
      })
    );
    this.diff = el(
      "button.btn",
      {
        type: "button",
        "aria-pressed": "false",
        onclick: () => set({ difference: !view().difference }),
      },
      "Difference to baseline",
    );
    this.reset = el(
      "button.btn",
      { type: "button", disabled: true, onclick: () => set({ from: null, to: null }) },
      "Reset ",
      el("kbd.wide-only", {}, "R"),
    );
    this.node = el(
      "div.bar.then",
      {},
      el("div.seg", { role: "group", "aria-label": "Align by" }, ...this.xs),
      el("label.row.tight", {}, el("span.soft", {}, "Smoothing"), this.slider),
      this.diff,
      menu("Series", () => this.#items(), { text: "Series", shape: "fleet" }),
      el("span.grow"),
      this.reset,
    );
  }

  /** @param {CompareView} view */
  show(view) {
    for (const each of this.xs) each.setAttribute("aria-pressed", String(each.dataset.x === view.x));
    if (Number(this.slider.value) !== view.smooth) this.slider.value = String(view.smooth);
    this.diff.setAttribute("aria-pressed", String(view.difference));
    this.diff.toggleAttribute("disabled", view.runs.length < 2);
    this.reset.toggleAttribute("disabled", view.from === null);
  }

  #items() {
    const names = this.source.metrics();
    const { series } = this.source.view();
    return [
      { head: names.length ? "Add metric" : "No other metrics" },
      ...names.slice(0, MOST_LISTED).map((name) => ({
        text: name,
        on: series.includes(name),
        act: () =>
          this.source.set({
            series: series.includes(name) ? series.filter((each) => each !== name) : [...series, name],
          }),
      })),
    ];
  }
}
