/**
 * A tooltip beside a place in a chart: where it is, and the values of the lines there, nearest first.
 *
 * Data: its host gives the content. Draws: one element over the panels. Screen readers have the tables and
 * the heads of the panels instead.
 */

import { el, refill } from "../browser/dom.js";
import { icon } from "../components/icons.js";
import { strokeOf } from "../components/runs/stroke.js";
import { int } from "../lib/format.js";

/**
 * @typedef {{ name: string, text: string, soft?: string, bad?: string, ink: string, dash?: string,
 *   lit?: boolean }} Row soft: what else is known, such as the range of a bucket; bad: non-finite values
 * @typedef {{ title: string, rows: Row[], note?: string }} Content
 */

/** Rows that fit beside the pointer; the others are counted. */
const MOST = 10;
/** Pixels between the pointer and the tooltip. */
const GAP = 16;

export class Tooltip {
  /**
   * @param {HTMLElement} host whose upper left corner is the origin
   * @param {() => void} release
   */
  constructor(host, release) {
    this.host = host;
    this.release = release;
    this.node = el("div.tooltip", { hidden: true, "aria-hidden": "true" });
  }

  get hidden() {
    return this.node.hidden;
  }

  hide() {
    this.node.hidden = true;
  }

  /**
   * @param {{ clientX: number, clientY: number }} place
   * @param {Content} content
   * @param {boolean} pinned it stays and can be closed
   */
  show(place, { title, rows, note }, pinned) {
    if (!rows.length) return this.hide();
    refill(
      this.node,
      el("div.micro", {}, title),
      pinned ? this.#close() : null,
      ...rows.slice(0, MOST).map(line),
      rows.length > MOST ? el("div.micro", {}, `and ${int(rows.length - MOST)} more`) : null,
      note ? el("div.micro.note", {}, note) : null,
    );
    this.node.classList.toggle("is-pinned", pinned);
    this.node.hidden = false;
    this.#place(place);
  }

  #close() {
    return el(
      "button.btn.bare",
      { type: "button", tabindex: "-1", title: "Release (Esc)", onclick: () => this.release() },
      icon("close"),
    );
  }

  /** @param {{ clientX: number, clientY: number }} place */
  #place({ clientX, clientY }) {
    const box = this.host.getBoundingClientRect();
    const { offsetWidth: wide, offsetHeight: high } = this.node;
    const right = clientX - box.left + GAP;
    const left = right + wide > box.width ? clientX - box.left - GAP - wide : right;
    const above = clientY + GAP + high > innerHeight && clientY - GAP - high > 0;
    const top = clientY - box.top + (above ? -GAP - high : GAP);
    this.node.style.setProperty("--x", `${Math.max(0, left).toFixed(0)}px`);
    this.node.style.setProperty("--y", `${top.toFixed(0)}px`);
  }
}

/** @param {Row} row */
function line(row) {
  return el(
    "div.line",
    { class: row.lit ? "is-lit" : "" },
    strokeOf(row.ink, row.dash),
    el("span.clip", {}, row.name),
    el("b", { class: /NaN|Inf/.test(row.text) ? "is-critical" : "" }, row.text),
    el(
      "span.soft",
      {},
      row.soft ?? "",
      row.soft && row.bad ? " · " : "",
      row.bad ? el("span.is-critical", {}, row.bad) : null,
    ),
  );
}
