/** Incidents of the same project that resemble one: how often it was seen before, and what was done then. */

import { el, refill } from "../../browser/dom.js";
import { ago, counted, dotted, int, moment, powers, ruleTitle } from "../../lib/format.js";
import { incidentAddress, runAddress } from "../../lib/route.js";
import { icon } from "../icons.js";

/** @type {Record<SimilarIncidents["items"][number]["state"], string>} */
const STATES = { open: "open", mitigated: "recovering", ended: "run ended", resolved: "resolved" };
/** Incidents that are listed; the others are counted. */
const SHOWN = 3;

export class SimilarTo {
  /**
   * @param {Pick<App, "alerting">} app
   * @param {() => number} now in Unix ms
   */
  constructor(app, now) {
    this.app = app;
    this.now = now;
    this.node = el("article.card.pad.similar", { hidden: true, "aria-label": "Similar incidents" });
  }

  /** @param {string} id of an incident */
  async load(id) {
    try {
      this.#draw(await this.app.alerting.similarIncidents(id));
    } catch {
      // The page does without; it is asked again after a reconnect.
    }
  }

  /** @param {SimilarIncidents} found */
  #draw({ items, count, before }) {
    this.node.hidden = count === 0;
    if (count === 0) return refill(this.node);
    const left = count - Math.min(items.length, SHOWN);
    refill(
      this.node,
      el("h2", {}, "Similar incidents"),
      el("p.soft", {}, heading(before, count)),
      el("ul.plain", {}, ...items.slice(0, SHOWN).map((each) => this.#row(each))),
      left > 0 ? el("p.muted", {}, `${counted(left, "more")} in this project`) : null,
    );
  }

  /** @param {SimilarIncidents["items"][number]} each */
  #row(each) {
    const step = each.onset_step === null ? "" : `step ${int(each.onset_step)}`;
    return el(
      "li",
      {},
      el(
        "p",
        {},
        el("span", { class: `is-${each.severity}` }, icon(each.severity, each.severity)),
        " ",
        el("a.link", { href: incidentAddress(each.id) }, `${ruleTitle(each.rule)} in ${each.run_name}`),
        " ",
        el(
          "span.muted",
          { title: moment(each.onset_ms) },
          dotted(step, ago(each.onset_ms, this.now()), STATES[each.state]),
        ),
      ),
      el("p.soft", {}, powers(each.summary)),
      el("p.muted", {}, each.reasons.join(" · ")),
      each.solved
        ? el(
            "p.soft",
            {},
            icon("check"),
            " Recovered in ",
            el("a.link", { href: runAddress(each.solved.run_id) }, each.solved.run_name),
            `: ${powers(each.solved.changed)}`,
          )
        : null,
      each.ack?.note ? el("p.soft", {}, `${each.ack.by}: “${each.ack.note}”`) : null,
    );
  }
}

/**
 * @param {number} before number of earlier similar incidents
 * @param {number} count of all similar incidents
 */
function heading(before, count) {
  if (before === 0) return `First occurrence in this project. Seen again ${times(count)} since.`;
  return `Seen ${times(before)} before in this project.`;
}

/** @param {number} count */
function times(count) {
  return count === 1 ? "once" : `${int(count)} times`;
}
