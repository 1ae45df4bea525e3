/** What changed: settings that differ from the last healthy attempt and from the most similar healthy run. */

import { el, refill } from "../../browser/dom.js";
import { counted, dotted, int } from "../../lib/format.js";
import { runAddress } from "../../lib/route.js";
import { codeBlock } from "../code.js";

/** Changes of one comparison that are shown unfolded. */
const LONG = 5;

export class WhatChanged {
  #key = "";

  /** @param {Pick<App, "alerting">} app */
  constructor(app) {
    this.app = app;
    this.node = el("section.changed", { hidden: true, "aria-label": "What changed" });
  }

  /** @param {import("../../lib/alerts/incidents.js").Incident} incident */
  async show({ id, alerts }) {
    const key = JSON.stringify([id, alerts.length]);
    if (key === this.#key || !alerts[0].incident) return;
    this.#key = key;
    try {
      const found = await this.app.alerting.incidentChanges(id);
      if (this.#key === key) this.#draw(found);
    } catch {
      if (this.#key === key) this.#key = ""; // asked again with the next change
    }
  }

  /** @param {RunChanges} found */
  #draw({ comparisons, diff }) {
    this.node.hidden = !comparisons.length;
    refill(
      this.node,
      el("h3", {}, "What changed"),
      ...comparisons.map(comparisonOf),
      diff
        ? el("details", {}, el("summary", {}, "Uncommitted changes"), codeBlock("git diff HEAD", diff))
        : null,
    );
  }
}

/** @param {Comparison} found */
export function comparisonOf(found) {
  const { changes, not_recorded: missing } = found;
  const rest = changes.slice(LONG);
  const name =
    found.kind === "attempt"
      ? `attempt ${found.attempt}`
      : el("a.link", { href: runAddress(found.run_id) }, found.run_name);
  return el(
    "div.then",
    {},
    el("p.soft", {}, "Compared with ", name, ", ", found.text),
    changes.length
      ? table(changes.slice(0, LONG))
      : el("p", {}, missing.length ? "No differences in the recorded settings." : "No differences."),
    rest.length
      ? el(
          "details",
          {},
          el("summary", {}, `${counted(found.count - LONG, "more difference")}`),
          table(rest),
          found.count > changes.length
            ? el("p.micro", {}, `${int(found.count - changes.length)} of them are not shown.`)
            : null,
        )
      : null,
    missing.length ? el("p.micro", {}, `Not recorded, so not compared: ${missing.join(", ")}.`) : null,
  );
}

/** @param {Change[]} changes */
const table = (changes) => el("table", {}, el("tbody", {}, ...changes.map(row)));

/** @param {Change} change */
const row = ({ category, name, before, after, only_failing: only, text }) =>
  el(
    "tr",
    { class: only ? "only" : "" },
    el("th", { scope: "row" }, el("code", {}, name), el("br"), el("span.micro", {}, dotted(category, text))),
    el("td", {}, value("del", before), " → ", value("ins", after)),
  );

/**
 * @param {string} tag
 * @param {string | null} text
 */
const value = (tag, text) => (text === null ? el("span.muted", {}, "not set") : el(tag, {}, text));
