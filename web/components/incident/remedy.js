/** Did the remedy work: later attempts and runs that trained the steps of an incident again. */

import { el, refill } from "../../browser/dom.js";
import { number } from "../../lib/exact.js";
import { ago, int, moment, powers, short } from "../../lib/format.js";
import { runAddress } from "../../lib/route.js";
import { icon } from "../icons.js";

/** Interval of asking again while the outcome is open. */
const EVERY_MS = 10_000;
/** @type {Record<Remedy["outcome"], { shape: string, text: (remedy: Remedy) => string }>} */
const OUTCOMES = {
  recovered: { shape: "check", text: () => "Recovered" },
  recurred: {
    shape: "critical",
    text: ({ step }) => `Recurred${step === null ? "" : ` at step ${int(step)}`}`,
  },
  "too-early": { shape: "waiting", text: () => "Too early" },
};

export class RemedyOutcomes {
  #id = "";
  #closed = false;

  /**
   * @param {Pick<App, "alerting">} app
   * @param {() => number} now in Unix ms
   */
  constructor(app, now) {
    this.app = app;
    this.now = now;
    this.node = el("article.card.pad.remedies", { hidden: true, "aria-label": "Did the remedy work?" });
    this.ticker = setInterval(() => {
      if (!document.hidden && this.#id) void this.load(this.#id);
    }, EVERY_MS);
  }

  close() {
    this.#closed = true;
    clearInterval(this.ticker);
  }

  /** @param {string} id of an incident */
  async load(id) {
    this.#id = id;
    try {
      const found = await this.app.alerting.incidentRemedies(id);
      if (!this.#closed) this.#draw(found);
    } catch {
      // The page does without; it is asked again.
    }
  }

  /** @param {Remedies} found */
  #draw({ items, stretch, text }) {
    const key = JSON.stringify(items);
    this.node.hidden = !items.length;
    if (!stretch || key === this.node.dataset.shown) return;
    this.node.dataset.shown = key;
    refill(
      this.node,
      el("h2", {}, "Did the remedy work?"),
      items.length > 1 ? el("p.soft", {}, text) : null,
      el("ul.plain", {}, ...[...items].reverse().map((each) => this.#row(each))),
      el("p.micro", {}, `Compared over steps ${int(stretch.onset)} to ${int(stretch.last)}.`),
    );
  }

  /** @param {Remedy} remedy */
  #row(remedy) {
    const { shape, text } = OUTCOMES[remedy.outcome];
    const at = { at: remedy.step ?? remedy.loss_step };
    return el(
      "li",
      { "data-outcome": remedy.outcome },
      el(
        "p",
        {},
        icon(shape),
        " ",
        el("strong", {}, text(remedy)),
        " ",
        el(
          "a.link",
          { href: runAddress(remedy.run_id, at) },
          `${remedy.run_name}, attempt ${int(remedy.attempt)}`,
        ),
        " ",
        el("span.muted", { title: moment(remedy.began_ms) }, ago(remedy.began_ms, this.now())),
      ),
      el("p", {}, powers(remedy.changed)),
      el("p.muted", {}, [reason(remedy), losses(remedy)].filter(Boolean).join(" ")),
    );
  }
}

/** @param {Remedy} remedy the sentence without the outcome, which is shown before it */
function reason({ text }) {
  const said = text.slice(text.indexOf(": ") + 2);
  return text.includes(": ") ? said[0].toUpperCase() + said.slice(1) : "";
}

/** @param {Remedy} remedy */
function losses({ loss_step: step, loss_before: before, loss_after: after }) {
  if (step === null) return "";
  return `Loss at step ${int(step)}: ${short(number(after))}, previously ${short(number(before))}.`;
}
