/** The head above the metrics of a run: their number, a filter by name, Add chart and the layout. */

import { el, say } from "../../browser/dom.js";
import { counted } from "../../lib/format.js";
import { icon } from "../icons.js";

export class MetricsHead {
  /**
   * @param {{ find: (text: string) => void, compose: () => void }} acts
   * @param {Node} layout
   */
  constructor({ find, compose }, layout) {
    this.count = el("span.muted");
    this.input = /** @type {HTMLInputElement} */ (
      el("input", {
        placeholder: "filter: act/|opt/",
        spellcheck: "false",
        title: "Part of a name; | for alternatives, * for any text, ^ and $ for the ends",
        "aria-label": "Filter metrics by name",
        oninput: () => find(this.input.value),
      })
    );
    this.nothing = el("p.muted.pad", { hidden: true });
    this.node = el(
      "div.sec",
      { hidden: true },
      el("h2", {}, "Metrics"),
      this.count,
      el("span.grow"),
      el("button.btn", { type: "button", onclick: () => compose() }, "Add chart"),
      layout,
      el("label.field", {}, icon("search"), this.input),
    );
  }

  /**
   * `any`: the run has series; `total` metrics, of which the filter shows some.
   *
   * @param {{ any: boolean, total: number, shown: number, find: string }} found
   */
  show({ any, total, shown, find }) {
    if (this.input.value !== find && document.activeElement !== this.input) this.input.value = find;
    this.node.hidden = !any;
    say(this.count, shown < total ? `${shown} of ${total}` : counted(total, "metric"));
    this.nothing.hidden = shown > 0 || !total;
    say(this.nothing, `No metric matches “${find}”.`);
  }
}
