/** The column beside the charts: the chosen alert in full, and all alerts of the run. */

import { el, focusIn, refill, say } from "../../browser/dom.js";
import { bySeverity, isOpen } from "../../lib/alerts/attention.js";
import { incidentId, incidentsOf, leadsOf } from "../../lib/alerts/incidents.js";
import { counted, powers, ruleTitle } from "../../lib/format.js";
import { icon } from "../icons.js";
import { alertList, diagnosisCard, standing } from "./diagnosis.js";

export class Aside {
  /**
   * @param {{ alerts: () => Alert[], chosen: () => string | null, mostSevere: () => string | null, choose:
   *   (alert: Alert) => void, loaded: () => boolean, acts: (alert: Alert) => import("./diagnosis.js").Acts,
   *   resume: import("../incident/checkpoint.js").ResumeFrom }
   *   & import("./diagnosis.js").Mover} source
   */
  constructor(source) {
    this.source = source;
    this.node = el("aside", { "aria-label": "Alerts of this run" });
    this.callout = el("a.card.callout", { href: "#likely-cause", hidden: true });
    this.key = "";
  }

  /**
   * Return the alert to show in full: the one the user chose, else the reason given in the fleet, else the
   * most urgent.
   *
   * @returns {Alert | null}
   */
  current() {
    const alerts = [...this.source.alerts()].sort(bySeverity);
    const chosen = this.source.chosen();
    return (
      alerts.find((alert) => alert.id === chosen) ??
      alerts.find((alert) => alert.id === this.source.mostSevere()) ??
      alerts[0] ??
      null
    );
  }

  /** Rewrite only what changed, so that readers keep their place and selection. */
  draw() {
    const alerts = [...this.source.alerts()].sort(bySeverity);
    const current = this.current();
    const now = this.source.now();
    const acts = current ? this.source.acts(current) : null;
    const key = JSON.stringify([alerts, current?.id, this.source.loaded(), acts]);
    if (key === this.key) return this.#age(current, now);
    this.key = key;
    const opened = [...this.node.querySelectorAll("details")].map((each) => each.open);
    const held = this.node.contains(document.activeElement)
      ? /** @type {HTMLElement} */ (document.activeElement).dataset.act
      : undefined;
    refill(
      this.node,
      current ? this.#card(alerts, current, acts) : this.#none(),
      ...this.#lists(alerts, current, now),
    );
    [...this.node.querySelectorAll("details")].forEach((each, i) => {
      each.open = opened[i] ?? false;
    });
    void this.source.resume.show(current ? this.#incident(alerts, current) : null);
    if (held) focusIn(this.node, `[data-act="${held}"]`);
    this.#call(current);
  }

  /**
   * @param {Alert | null} current
   * @param {number} now
   */
  #age(current, now) {
    const age = this.node.querySelector(".diag .standing");
    if (age && current) say(age, standing(current, now));
  }

  /**
   * @param {Alert[]} alerts
   * @param {Alert} current
   */
  #incident(alerts, current) {
    return incidentsOf(alerts.filter((alert) => incidentId(alert) === incidentId(current)))[0];
  }

  /**
   * The other alerts of the incident shown, and the other incidents of the run.
   *
   * @param {Alert[]} alerts
   * @param {Alert | null} current
   * @param {number} now
   */
  #lists(alerts, current, now) {
    if (!current) return [];
    const { alerts: mine } = this.#incident(alerts, current);
    const others = leadsOf(alerts, current.id).filter((alert) => incidentId(alert) !== incidentId(current));
    const { choose } = this.source;
    return [
      mine.length > 1 ? alertList(mine, current.id, choose, now, "Alerts of this incident") : null,
      others.length
        ? alertList(others.sort(bySeverity), current.id, choose, now, "Other incidents of this run")
        : null,
    ];
  }

  /**
   * @param {Alert[]} alerts
   * @param {Alert} current
   * @param {import("./diagnosis.js").Acts | null} acts
   */
  #card(alerts, current, acts) {
    const { onset_step: incidentOnset } = this.#incident(alerts, current);
    return diagnosisCard(current, this.source, { incidentOnset, acts, resume: this.source.resume.node });
  }

  #none() {
    return el(
      "section.card.pad.healthy",
      {},
      el("h2", {}, icon("check"), " ", this.source.loaded() ? "No open alerts" : "–"),
      this.source.loaded()
        ? el(
            "p.soft.then",
            {},
            "Rules check every step of this run. Alerts appear here with onset, evidence and first action.",
          )
        : null,
    );
  }

  /**
   * On a phone the diagnosis is below the charts; this line above them links to it.
   *
   * @param {Alert | null} current
   */
  #call(current) {
    const show = current !== null && isOpen(current);
    this.callout.hidden = !show;
    if (!show) return;
    this.callout.className = `card callout ${current.severity}`;
    refill(
      this.callout,
      el("span", { class: `is-${current.severity}` }, icon(current.severity, current.severity)),
      el(
        "span.grow",
        {},
        el("b", { class: `is-${current.severity}` }, ruleTitle(current.rule)),
        el("br"),
        powers(current.summary),
      ),
      el("span.link.nowrap", {}, "What to do"),
    );
  }
}

/** @param {Alert[]} alerts chips for the page head */
export function severityChips(alerts) {
  const open = incidentsOf(alerts).filter(isOpen);
  return /** @type {const} */ (["critical", "warning", "info"]).map((severity) => {
    const n = open.filter((alert) => alert.severity === severity).length;
    return n
      ? el(
          "span.chip",
          { class: severity },
          icon(severity),
          severity === "warning" ? counted(n, "warning") : `${n} ${severity}`,
        )
      : null;
  });
}
