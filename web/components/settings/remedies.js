/**
 * Settings: which changes helped against which cause, by project.
 *
 * Data: data/alertingapi.js; a project's ledger is loaded when it is opened.
 */

import { el, refill } from "../../browser/dom.js";
import { int, ruleTitle } from "../../lib/format.js";
import { incidentAddress, runAddress } from "../../lib/route.js";
import { failed } from "../form.js";

/** @type {Record<Remedy["outcome"], string>} */
const OUTCOMES = { recovered: "recovered", recurred: "recurred", "too-early": "too early" };
const COLUMNS = ["Cause", "Change", "Recovered", "Recurred", "Too early"];

export class RemedyLedger {
  /** @param {Pick<App, "alerting">} app */
  constructor(app) {
    this.app = app;
    this.node = el("div", {}, el("p.muted", {}, "–"));
  }

  async load() {
    try {
      const { items } = await this.app.alerting.projects();
      const opened = new Set(
        [...this.node.querySelectorAll("details")]
          .filter((each) => each.open)
          .map((each) => each.dataset.project),
      );
      refill(
        this.node,
        items.length
          ? el("p.muted", {}, "What changed after each incident, and whether the problem recurred.")
          : el("p.muted", {}, "No projects yet. The first run creates one."),
        ...items.map(({ name }) => this.#project(name, opened.has(name))),
      );
    } catch (error) {
      failed(this.node, error, () => void this.load());
    }
  }

  /**
   * @param {string} name
   * @param {boolean} open
   */
  #project(name, open) {
    const body = el("div");
    const details = /** @type {HTMLDetailsElement} */ (
      el("details", { "data-project": name }, el("summary", {}, name), body)
    );
    details.addEventListener("toggle", () => {
      if (details.open) void this.#fill(name, body);
    });
    details.open = open;
    return details;
  }

  /**
   * @param {string} name
   * @param {HTMLElement} body
   */
  async #fill(name, body) {
    try {
      const { items } = await this.app.alerting.projectRemedies(name);
      refill(
        body,
        items.length
          ? table(name, items)
          : el("p.muted", {}, "No remedies yet. They appear when you train again after an incident."),
      );
    } catch (error) {
      failed(body, error, () => void this.#fill(name, body));
    }
  }
}

/**
 * @param {string} name
 * @param {LedgerLine[]} items
 */
const table = (name, items) =>
  el(
    "div.scroll",
    { tabindex: "0", role: "region", "aria-label": `Remedies of ${name}` },
    el(
      "table.plain-table",
      {},
      el(
        "thead",
        {},
        el("tr", {}, ...COLUMNS.map((text, i) => el("th", { scope: "col", class: i > 1 ? "n" : "" }, text))),
      ),
      el("tbody", {}, ...items.map(row)),
    ),
  );

/** @param {LedgerLine} line */
const row = ({ cause, label, held, recurred, open, cases }) =>
  el(
    "tr",
    {},
    el("td", {}, ruleTitle(cause)),
    el("td", {}, el("details", {}, el("summary", {}, label), el("ul.plain", {}, ...cases.map(caseRow)))),
    ...[held, recurred, open].map((n) => el("td.n", {}, int(n))),
  );

/** @param {LedgerLine["cases"][number]} one */
const caseRow = (one) =>
  el(
    "li",
    {},
    el("a.link", { href: incidentAddress(one.incident) }, "Incident"),
    ", then ",
    el("a.link", { href: runAddress(one.run_id) }, one.run_name),
    `: ${OUTCOMES[one.outcome]}`,
  );
