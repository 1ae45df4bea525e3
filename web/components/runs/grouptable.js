/** The table of the groups of a comparison: their colors, runs and newest values. */

import { el, refill } from "../../browser/dom.js";
import { counted, dotted } from "../../lib/format.js";
import { strokeOf } from "./stroke.js";

/**
 * @typedef {{ id: string, name: string, ink: string, dash: string, runs: number, hidden: number,
 *   failed: number, values: { title: string, text: string, soft: string, bad: string }[] }} GroupRow
 */

/** As many groups as the table lists. */
const MOST = 200;

export class GroupTable {
  #key = "";

  /** @param {(id: string | null) => void} point called with the group under the pointer */
  constructor(point) {
    this.table = el("table.plain-table.grouptable");
    const under = (/** @type {Event} */ event) => {
      const row = /** @type {Element} */ (event.target).closest("tr[data-group]");
      point(/** @type {HTMLElement | null} */ (row)?.dataset.group ?? null);
    };
    this.table.addEventListener("pointerover", under);
    this.table.addEventListener("pointerleave", () => point(null));
    this.more = el("p.muted", { hidden: true });
    this.node = el(
      "section.card.then",
      { "aria-label": "Groups", hidden: true },
      el(
        "div.scroll.tall",
        { tabindex: "0", role: "region", "aria-label": "Groups and their newest values" },
        this.table,
      ),
      this.more,
    );
  }

  /** @param {GroupRow[]} rows */
  show(rows) {
    this.node.hidden = !rows.length;
    const key = JSON.stringify(rows);
    if (key === this.#key) return;
    this.#key = key;
    const titles = ["Group", "Runs", ...(rows[0]?.values ?? []).map((each) => each.title)];
    refill(
      this.table,
      el("caption.vh", {}, "Mean and standard deviation of the newest values"),
      el(
        "thead",
        {},
        el("tr", {}, ...titles.map((title, i) => el("th", { scope: "col", class: i > 1 ? "n" : "" }, title))),
      ),
      el("tbody", {}, ...rows.slice(0, MOST).map(line)),
    );
    this.more.hidden = rows.length <= MOST;
    refill(this.more, `${rows.length - MOST} more groups are not listed.`);
  }
}

/** @param {GroupRow} row */
const line = ({ id, name, ink, dash, runs, hidden, failed, values }) =>
  el(
    "tr",
    { "data-group": id },
    el("th", { scope: "row" }, strokeOf(ink, dash), el("span.runname", { title: name }, name)),
    el(
      "td.nowrap",
      {},
      dotted(counted(runs, "run"), hidden ? `${hidden} hidden` : ""),
      failed ? el("span.is-critical", {}, ` · ${failed} failed`) : null,
    ),
    ...values.map(({ text, soft, bad }) =>
      el(
        "td.n.nowrap",
        {},
        text,
        soft ? el("span.muted", {}, ` ${soft}`) : null,
        bad ? el("span.is-critical", {}, ` · ${bad}`) : null,
      ),
    ),
  );
