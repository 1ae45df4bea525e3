/** The checkpoints tab: the last good one in a sentence, then all that still exist, newest first. */

import { el, refill } from "../../browser/dom.js";
import { bytes, dotted, int, moment } from "../../lib/format.js";

/** The most rows that are shown. */
const MOST = 200;

export class CheckpointList {
  node = el("div.then", {}, el("p.muted", {}, "–"));
  #serial = 0;

  /** @param {() => Promise<CheckpointAnswer>} ask */
  constructor(ask) {
    this.ask = ask;
  }

  /** Load the list. Of several requests, the newest one is shown. */
  async load() {
    const own = ++this.#serial;
    try {
      const answer = await this.ask();
      if (own === this.#serial) refill(this.node, ...contents(answer));
    } catch (error) {
      if (own === this.#serial) {
        refill(this.node, el("p.failure", { role: "status" }, /** @type {Error} */ (error).message));
      }
    }
  }
}

/** @param {CheckpointAnswer} answer */
function contents({ items, last_good, text }) {
  if (!items.length) {
    const own = el("code", {}, "run.checkpoint(path)");
    return [
      el(
        "p.muted",
        {},
        "No checkpoints yet. Most saves are found without code. Report others with ",
        own,
        ".",
      ),
    ];
  }
  const left = items.length - MOST;
  return [
    el("p", {}, last_good ? el("strong", {}, "Last good checkpoint: ") : null, text),
    el(
      "div.scroll",
      { tabindex: "0", role: "region", "aria-label": "Checkpoints" },
      el(
        "table.plain-table",
        {},
        el("thead", {}, el("tr", {}, ...["Step", "Saved", "Size", "State", "Path"].map(head))),
        el("tbody", {}, ...items.slice(0, MOST).map(row)),
      ),
    ),
    left > 0 ? el("p.muted", {}, `${int(left)} older ones are not shown.`) : null,
  ];
}

/**
 * @param {string} title
 * @param {number} i
 */
const head = (title, i) => el("th", { scope: "col", class: i % 2 || i > 2 ? "" : "n" }, title);

/** @param {CheckpointRow} each */
const row = (each) =>
  el(
    "tr",
    {},
    el("td.n", {}, int(each.step)),
    el("td", {}, moment(each.time_ms)),
    el("td.n", {}, each.size === null ? "–" : bytes(each.size)),
    el("td", {}, each.problem ? each.problem : dotted("good", each.holds.join(" and "))),
    el("td", { title: dotted(each.by, each.host) }, el("code", {}, each.path)),
  );
