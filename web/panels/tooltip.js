/**
 * A tooltip beside the pointer: where it is, and the values of the lines there, nearest first.
 *
 * Data: its host gives the rows. Draws: one element over the panels. Screen readers have the tables instead.
 */

import { el, refill } from "../browser/dom.js";
import { int } from "../lib/format.js";

/** @typedef {{ name: string, text: string, soft?: string, ink: string, lit?: boolean }} TooltipRow */

/** Rows that fit beside the pointer; the others are counted. */
const MOST = 10;
/** Pixels between the pointer and the tooltip. */
const GAP = 16;

export class Tooltip {
  /** @param {HTMLElement} host whose upper left corner is the origin */
  constructor(host) {
    this.host = host;
    this.node = el("div.tooltip", { hidden: true, "aria-hidden": "true" });
  }

  hide() {
    this.node.hidden = true;
  }

  /**
   * @param {{ clientX: number, clientY: number }} pointer
   * @param {string} title
   * @param {TooltipRow[]} rows
   */
  show(pointer, title, rows) {
    if (!rows.length) return this.hide();
    refill(
      this.node,
      el("div.micro", {}, title),
      ...rows
        .slice(0, MOST)
        .map((row) =>
          el(
            "div.line",
            { class: row.lit ? "is-lit" : "" },
            el("i", { "--ink": `var(${row.ink})` }),
            el("span.clip", {}, row.name),
            el("b", {}, row.text),
            el("span.soft", {}, row.soft ?? ""),
          ),
        ),
      rows.length > MOST ? el("div.micro", {}, `and ${int(rows.length - MOST)} more`) : null,
    );
    this.node.hidden = false;
    this.#place(pointer);
  }

  /** @param {{ clientX: number, clientY: number }} pointer */
  #place({ clientX, clientY }) {
    const box = this.host.getBoundingClientRect();
    const { offsetWidth: wide, offsetHeight: high } = this.node;
    const right = clientX - box.left + GAP;
    const left = right + wide > box.width ? clientX - box.left - GAP - wide : right;
    const above = clientY + GAP + high > innerHeight;
    const top = clientY - box.top + (above ? -GAP - high : GAP);
    this.node.style.setProperty("--x", `${Math.max(0, left).toFixed(0)}px`);
    this.node.style.setProperty("--y", `${top.toFixed(0)}px`);
  }
}
