/**
 * The choice of the x axis, of the run page and of the comparison: the step, times, or any metric; log or
 * not.
 */

import { el, refill } from "../../browser/dom.js";
import { canBeLog, xMetric, xOf } from "../../lib/views/xaxis.js";

/**
 * @typedef {import("../../lib/views/xaxis.js").XAxis} XAxis
 * @typedef {import("../../lib/views/xaxis.js").XKind} XKind
 */

/** As many metrics as are listed. */
const MOST_LISTED = 500;

export class XChoice {
  #listed = "";

  /**
   * @param {readonly (readonly [XKind, string])[]} kinds besides metrics, with their titles
   * @param {(axis: Partial<XAxis>) => void} set
   */
  constructor(kinds, set) {
    this.kinds = kinds.map(([kind, text]) =>
      el("button", { type: "button", "data-x": kind, onclick: () => set({ x: kind }) }, text),
    );
    this.metric = /** @type {HTMLSelectElement} */ (
      el("select.xmetric", {
        "aria-label": "Metric as x axis",
        title: "Place each value at the last known value of this metric at or before its step",
        onchange: () => set({ x: this.metric.value ? xOf(this.metric.value) : "step" }),
      })
    );
    this.log = el(
      "button.btn",
      {
        type: "button",
        title: "Logarithmic x axis; what is at or below zero is left out",
        "aria-label": "Log x axis",
        onclick: () => set({ logX: this.log.getAttribute("aria-pressed") !== "true" }),
      },
      "Log x",
    );
    this.node = el(
      "span.row.tight.xchoice",
      {},
      el("div.seg", { role: "group", "aria-label": "X axis" }, ...this.kinds, this.metric),
      this.log,
    );
  }

  /**
   * @param {XAxis} axis
   * @param {string[]} names metrics, in order
   * @param {boolean} [linear] it cannot be logarithmic
   */
  show({ x, logX }, names, linear = false) {
    const chosen = xMetric(x) ?? "";
    for (const button of this.kinds) {
      button.setAttribute("aria-pressed", String(button.dataset.x === x));
    }
    this.#offer(names, chosen);
    this.metric.value = chosen;
    this.metric.classList.toggle("is-on", chosen !== "");
    this.log.setAttribute("aria-pressed", String(logX && canBeLog(x)));
    this.log.toggleAttribute("disabled", linear || !canBeLog(x));
  }

  /**
   * @param {string[]} names
   * @param {string} chosen
   */
  #offer(names, chosen) {
    const listed = names.slice(0, MOST_LISTED);
    if (chosen && !listed.includes(chosen)) listed.push(chosen);
    const key = listed.join("\n");
    if (key === this.#listed && this.metric.options.length) return;
    this.#listed = key;
    refill(
      this.metric,
      el("option", { value: "" }, "Metric…"),
      ...listed.map((name) => el("option", { value: name }, name)),
    );
  }
}
