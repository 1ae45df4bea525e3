/** The table of settings by how much they have to do with a metric; sorted by any column, saved as CSV. */

import { fileName, handBlob } from "../../browser/download.js";
import { el, refill } from "../../browser/dom.js";
import { FEW, influencesCsv } from "../../lib/charts/sweep.js";
import { shortened } from "../../lib/flatten.js";
import { counted, int, num } from "../../lib/format.js";
import { icon } from "../icons.js";

/**
 * @typedef {import("../../lib/charts/sweep.js").Influence} Influence
 * @typedef {"key" | "share" | "rho" | "n" | "values" | "best"} Column
 */

const COLUMNS = /** @type {[Column, string, string][]} */ ([
  ["key", "Setting", ""],
  ["share", "Importance", "Share of the variance of the metric's ranks that this setting alone explains"],
  ["rho", "Correlation", "Spearman's rank correlation of the setting with the metric"],
  ["n", "Runs", "Runs that have the setting and the metric"],
  ["values", "Values", "Different values of the setting"],
  ["best", "Best run's value", "Value of the setting in the best run"],
]);
/** Columns of numbers. */
const NUMBERS = new Set(["share", "rho", "n", "values"]);
/** As many settings as are listed; the CSV has all. */
const MOST = 100;

export class InfluenceTable {
  /** @type {{ column: Column, down: boolean }} */
  #order = { column: "share", down: true };
  /** @type {Influence[]} */
  #rows = [];
  #metric = "";

  constructor() {
    this.note = el("p.muted");
    this.heads = el("tr");
    this.body = el("tbody");
    this.csv = el(
      "button.btn",
      { type: "button", title: "This table as CSV", onclick: () => this.#save() },
      icon("down"),
      "CSV",
    );
    this.node = el(
      "div.influence",
      {},
      el(
        "div.scroll.tall",
        { tabindex: "0", role: "region", "aria-label": "Settings by importance" },
        el("table.plain-table", {}, el("thead", {}, this.heads), this.body),
      ),
      this.note,
    );
  }

  /**
   * @param {Influence[]} rows
   * @param {{ metric: string, runs: number, bad: number }} of bad: runs whose metric is not finite
   */
  show(rows, { metric, runs, bad }) {
    this.#rows = rows;
    this.#metric = metric;
    this.#draw();
    refill(
      this.note,
      runs < FEW ? el("strong", {}, `Only ${counted(runs, "run")}: these numbers say little. `) : null,
      "Both numbers use ranks and look at one setting at a time. ",
      "Settings that change together share the credit. ",
      bad ? `${counted(bad, "run")} without a finite value ${bad === 1 ? "counts" : "count"} as worst.` : "",
    );
  }

  #draw() {
    const { column, down } = this.#order;
    refill(this.heads, ...COLUMNS.map(([id, text, title]) => this.#head(id, text, title)));
    const sorted = [...this.#rows].sort((a, b) => compared(a, b, column) * (down ? -1 : 1));
    refill(this.body, ...sorted.slice(0, MOST).map(line));
  }

  /**
   * @param {Column} id
   * @param {string} text
   * @param {string} title
   */
  #head(id, text, title) {
    const { column, down } = this.#order;
    const way = id === column ? (down ? "descending" : "ascending") : null;
    const sort = () => {
      this.#order = { column: id, down: id === column ? !down : NUMBERS.has(id) };
      this.#draw();
      /** @type {HTMLElement | null} */ (this.heads.querySelector(`[data-column="${id}"]`))?.focus();
    };
    return el(
      "th",
      { scope: "col", class: NUMBERS.has(id) ? "n" : "", "aria-sort": way },
      el(
        "button.btn.bare.sorter",
        { type: "button", title: title || null, "data-column": id, onclick: sort },
        text,
        el("span", { "aria-hidden": "true" }, way ? (down ? " ↓" : " ↑") : ""),
      ),
    );
  }

  #save() {
    const text = influencesCsv(this.#rows);
    handBlob(new Blob([text], { type: "text/csv" }), fileName(["importance", this.#metric], "csv"));
  }
}

/**
 * Unknown values come last in descending order.
 *
 * @param {Influence} a
 * @param {Influence} b
 * @param {Column} column
 */
function compared(a, b, column) {
  const [left, right] = [a[column], b[column]];
  if (column === "rho") return Math.abs(a.rho ?? -1) - Math.abs(b.rho ?? -1);
  if (NUMBERS.has(column)) return Number(left ?? -1) - Number(right ?? -1);
  return String(left ?? "").localeCompare(String(right ?? ""), "en", { numeric: true });
}

/** @param {Influence} row */
const line = ({ key, share, rho, chance, n, values, best }) =>
  el(
    "tr",
    { "data-setting": key },
    el("th", { scope: "row" }, el("code", {}, key)),
    el(
      "td.n",
      {},
      share === null
        ? el("span.none", { title: "Each run has its own value" }, "unknown")
        : el("span.share", { "--share": share.toFixed(3) }, `${Math.round(share * 100)} %`),
    ),
    el(
      "td.n.nowrap",
      {},
      rho === null ? el("span.none", { title: "No order, or all equal" }, "–") : signed(rho),
      rho !== null && chance !== null && Math.abs(rho) < chance
        ? el("span.muted", { title: `Below ${num(chance, 2)} is likely by chance` }, " · may be chance")
        : null,
    ),
    el("td.n", {}, int(n)),
    el("td.n", {}, int(values)),
    el("td.mono.anywhere", { title: best ?? null }, shortened([best])[0] ?? el("span.none", {}, "not set")),
  );

/** @param {number} rho */
const signed = (rho) => `${rho > 0 ? "+" : rho < 0 ? "−" : ""}${Math.abs(rho).toFixed(2)}`;
