/** Why a run failed: type, message and the last lines of the traceback, above the charts. */

import { el, refill } from "../../browser/dom.js";
import { endingOf } from "../../lib/runs/clienttext.js";
import { codeBlock } from "../code.js";
import { icon } from "../icons.js";

export class EndingCard {
  constructor() {
    this.node = el("section.card.pad.ending", { "aria-label": "How the run ended", hidden: true });
    this.key = "";
  }

  /** @param {RunRow} row */
  show(row) {
    const ending = row.state === "failed" ? endingOf(row.error) : null;
    const key = JSON.stringify(ending);
    this.node.hidden = !ending;
    if (!ending || key === this.key) return;
    this.key = key;
    refill(
      this.node,
      el("h2", {}, icon("failed"), ` ${ending.head || "Failed"}`),
      ending.message ? el("p.prose", {}, ending.message) : null,
      ending.lines
        ? el("details.then", {}, el("summary", {}, "Last lines"), codeBlock("traceback", ending.lines))
        : null,
    );
  }
}
