/**
 * How a run ended, above the charts: the error that it failed with, or what was wrong when it finished.
 */

import { el, refill } from "../../browser/dom.js";
import { powers } from "../../lib/format.js";
import { endingOf } from "../../lib/runs/clienttext.js";
import { codeBlock } from "../code.js";
import { icon } from "../icons.js";

/**
 * Return the outcome of a run that finished with problems, until it is acknowledged; else null.
 *
 * @param {RunRow} row
 */
function problemsOf({ state, outcome, reason }) {
  if (state !== "finished" || !outcome?.severity || outcome.acknowledged) return null;
  return { head: "Finished with problems", message: powers(reason?.summary ?? ""), lines: "" };
}

export class EndingCard {
  constructor() {
    this.node = el("section.card.pad.ending", { "aria-label": "How the run ended", hidden: true });
    this.key = "";
  }

  /** @param {RunRow} row */
  show(row) {
    const ending = row.state === "failed" ? endingOf(row.error) : problemsOf(row);
    const key = JSON.stringify(ending);
    this.node.hidden = !ending;
    if (!ending || key === this.key) return;
    this.key = key;
    refill(
      this.node,
      el("h2", {}, icon(row.state === "failed" ? "failed" : "critical"), ` ${ending.head || "Failed"}`),
      ending.message ? el("p.prose", {}, ending.message) : null,
      ending.lines
        ? el("details.then", {}, el("summary", {}, "Last lines"), codeBlock("traceback", ending.lines))
        : null,
    );
  }
}
