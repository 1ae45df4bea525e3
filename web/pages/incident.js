/**
 * One incident: what broke and since when, why, what to do first, where to resume, and the charts of the
 * onset; below them what supports it, its alerts and its history.
 *
 * Data: data/alertstore.js holds the alerts, live; panels/onsetcharts.js loads the charts,
 * components/incident/checkpoint.js the checkpoint, components/incident/changes.js what changed,
 * components/alerts/lifelines.js the history. State: the
 * address names the incident. View: this module.
 */

import { el, focusIn, refill, say } from "../browser/dom.js";
import { go, isAbsent } from "../browser/navigate.js";
import { isShortcut } from "../browser/shortcuts.js";
import { alertActs } from "../components/alerts/alertacts.js";
import {
  actBar,
  alertList,
  evidence,
  firstAction,
  howToConfirm,
  otherExplanations,
  standing,
  timelineOf,
} from "../components/alerts/diagnosis.js";
import { LifeLines } from "../components/alerts/lifelines.js";
import { copyButton } from "../components/code.js";
import { icon } from "../components/icons.js";
import { WhatChanged } from "../components/incident/changes.js";
import { ResumeFrom } from "../components/incident/checkpoint.js";
import { RemedyOutcomes } from "../components/incident/remedy.js";
import { SimilarTo } from "../components/incident/similar.js";
import { button, notice } from "../components/notice.js";
import { ApiError } from "../data/http.js";
import { asText } from "../lib/alerts/evidence.js";
import { distinguished, incidentId, incidentsOf, runsOf, together, worded } from "../lib/alerts/incidents.js";
import { ago, clock as clockTime, counted, dotted, int, moment, powers, ruleTitle } from "../lib/format.js";
import { runAddress } from "../lib/route.js";
import { OnsetCharts } from "../panels/onsetcharts.js";

/** @typedef {import("../lib/alerts/incidents.js").Incident} Incident */

const AGE_MS = 1_000;
/** Other runs of an incident that are named. */
const MOST_RUNS = 5;

class IncidentPage {
  /** @type {OnsetCharts | null} */
  #charts = null;
  #closed = false;
  #key = "";
  /** @type {Map<string, Alert>} its alerts; the store drops old ones that are over */
  #alerts = new Map();
  /** Alerts of the incident on the server; those beyond the first fifty are not loaded. */
  #count = 0;

  /**
   * @param {App} app
   * @param {HTMLElement} main
   * @param {string} id
   */
  constructor(app, main, id) {
    this.app = app;
    this.main = main;
    this.id = id;
    this.resume = new ResumeFrom(app);
    this.remedies = new RemedyOutcomes(app, () => this.#now());
    this.similar = new SimilarTo(app, () => this.#now());
    this.changes = new WhatChanged(app);
    this.head = el("header.inchead");
    this.since = el("span.strong");
    this.age = el("span.muted");
    this.card = el("article.card.diag", { "aria-label": "Diagnosis" });
    this.chartside = el("div");
    this.reasons = el("article.card.diag.why", { "aria-label": "Evidence" });
    this.members = el("div.members");
    this.life = new LifeLines(() => this.#now());
    this.history = el(
      "section.card.pad.history",
      { "aria-label": "History" },
      el("h2", {}, "History"),
      this.life.node,
    );
    this.key = (/** @type {KeyboardEvent} */ event) => this.#press(event);
  }

  open() {
    this.app.title("Incident");
    refill(this.main, el("p.muted.pad", {}, "Loading…"));
    this.stops = [
      this.app.alerts.onChange(() => this.#draw()),
      this.app.marks.onChange(() => this.#draw()),
      this.app.live.onReconnect(() => void this.#load()),
    ];
    this.ticker = setInterval(() => this.#tick(), AGE_MS);
    document.addEventListener("keydown", this.key);
    void this.app.marks.load().catch(() => {});
    if (isAbsent()) this.#unknown();
    else void this.#load();
  }

  close() {
    this.#closed = true;
    for (const stop of this.stops ?? []) stop();
    clearInterval(this.ticker);
    document.removeEventListener("keydown", this.key);
    this.#charts?.close();
    this.remedies.close();
  }

  async #load() {
    const asked = this.app.alerts.now();
    try {
      const found = await this.app.alerting.incident(this.id);
      if (this.#closed) return;
      this.#count = found.count;
      const [incident] = incidentsOf(found.alerts);
      this.resume.put(incident, found.resume);
      void this.similar.load(this.id);
      void this.remedies.load(this.id);
      this.app.alerts.learn(found.alerts, asked);
    } catch (error) {
      if (!this.#closed && !this.#incident()) this.#failed(error);
    }
  }

  /** @returns {Incident | null} */
  #incident() {
    for (const alert of this.app.alerts.all()) {
      if (incidentId(alert) === this.id) this.#alerts.set(alert.id, alert);
    }
    return incidentsOf(this.#alerts.values())[0] ?? null;
  }

  /** @param {unknown} error */
  #failed(error) {
    if (error instanceof ApiError && error.status === 404) return this.#unknown();
    refill(
      this.main,
      notice(
        "The incident did not load",
        String(/** @type {Error} */ (error).message),
        "The page tries again when the server is back.",
        button("Try now", () => void this.#load()),
      ),
    );
  }

  #unknown() {
    refill(
      this.main,
      notice(
        "There is no such incident",
        `No incident has the id ${this.id}.`,
        "Its run may have been deleted, or it is on another server.",
        el("a.btn.primary", { href: "/alerts" }, "All incidents"),
      ),
    );
  }

  #draw() {
    const incident = this.#incident();
    if (!incident || this.#closed) return;
    if (!this.#charts) this.#begin(incident);
    const acts = alertActs(this.app, incident.lead);
    const key = JSON.stringify([incident.alerts, acts]);
    if (key !== this.#key) {
      this.#key = key;
      this.#write(incident, acts);
      this.#charts?.show(incident);
      void this.resume.show(incident);
      void this.changes.show(incident);
      const lines = JSON.stringify([
        incident.alerts.map(({ id, state, severity }) => [id, state, severity]),
        acts.chips,
      ]);
      void this.life.show(lines, async () =>
        this.#lines((await this.app.alerting.incidentHistory(this.id)).items),
      );
    }
    this.#tick();
  }

  /** @param {LifeLine[]} lines of the history */
  #lines(lines) {
    return distinguished(together(this.#named(worded(lines))), this.#alerts.values());
  }

  /**
   * Return the lines of the history with the names of their runs, if there are several.
   *
   * @param {LifeLine[]} lines
   */
  #named(lines) {
    const names = new Map([...this.#alerts.values()].map((alert) => [alert.id, alert.run_name]));
    if (new Set(names.values()).size < 2) return lines;
    return lines.map((line) => {
      const name = names.get(line.alert ?? "");
      return name ? { ...line, text: `${name}: ${line.text}` } : line;
    });
  }

  /** @param {Incident} incident */
  #begin(incident) {
    const open = (/** @type {number} */ step) =>
      go(runAddress(incident.run_id, { at: step, alert: incident.lead.id }));
    this.#charts = new OnsetCharts(this.app, incident, open);
    refill(this.chartside, this.#charts.node);
    refill(
      this.main,
      this.head,
      el(
        "div.inccols",
        {},
        el("div.incside", {}, this.card, this.reasons, this.remedies.node, this.similar.node),
        el("div.incside", {}, this.chartside, this.members, this.history),
      ),
    );
  }

  /**
   * @param {Incident} incident
   * @param {import("../components/alerts/diagnosis.js").Acts} acts
   */
  #write(incident, acts) {
    const { lead } = incident;
    const why = lead.diagnosis;
    const held = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.act;
    const opened = [...this.reasons.querySelectorAll("details")].map((each) => each.open);
    const mover = this.#mover(incident);
    this.app.title(`${ruleTitle(lead.rule)} · ${lead.run_name}`);
    refill(this.head, ...this.#heading(incident));
    this.card.className = `card diag ${incident.state === "resolved" ? "past " : ""}${lead.severity}`;
    refill(
      this.card,
      el(
        "header",
        {},
        el("h2.vh", {}, "Diagnosis"),
        el("p.soft", {}, powers(lead.summary)),
        why?.cause ? el("p.likely-cause", { id: "likely-cause" }, powers(why.cause)) : null,
        lead.late ? el("p.micro", {}, "From records that arrived late: no notifications were sent.") : null,
      ),
      firstAction(why),
      this.resume.node,
      ...actBar(lead, acts),
    );
    refill(
      this.reasons,
      el("header", {}, el("h2", {}, "Why")),
      evidence(why, mover),
      timelineOf(why, mover),
      this.changes.node,
      otherExplanations(why),
      howToConfirm(why),
      el(
        "section",
        {},
        copyButton("Copy as text", () => asText(lead, location.href)),
      ),
    );
    [...this.reasons.querySelectorAll("details")].forEach((each, i) => {
      each.open = opened[i] ?? false;
    });
    const left = this.#count - incident.alerts.length;
    const title = left > 0 ? `Alerts (${counted(left, "more")} not shown)` : "Alerts";
    refill(
      this.members,
      alertList(incident.alerts, null, (alert) => this.#open(alert), this.#now(), title),
    );
    if (held) focusIn(this.card, `[data-act="${held}"]`);
  }

  /** @param {Incident} incident */
  #heading(incident) {
    const { lead } = incident;
    const runs = runsOf(incident).slice(1);
    const others = runs.slice(0, MOST_RUNS);
    const left = runs.length - others.length;
    return [
      el(
        "nav.muted.crumb",
        { "aria-label": "Where" },
        el("a", { href: "/alerts" }, "Alerts"),
        " / ",
        el("span", {}, lead.project),
        " / ",
        el("a.link", { href: runAddress(lead.run_id) }, lead.run_name),
        ...others.flatMap(({ id, name }) => [", ", el("a.link", { href: runAddress(id) }, name)]),
        left > 0 ? ` and ${counted(left, "more run")}` : "",
      ),
      el(
        "div.pagehead",
        {},
        el(
          "h1",
          { class: incident.state === "resolved" ? "" : `is-${lead.severity}` },
          icon(lead.severity, lead.severity),
          " ",
          ruleTitle(lead.rule),
        ),
        this.since,
        this.age,
        el("span.grow"),
        el(
          "a.btn",
          {
            href: runAddress(lead.run_id, { at: incident.onset_step, alert: lead.id }),
            title: "All charts of the run at the onset",
          },
          "Open run ",
          el("kbd.wide-only", {}, "O"),
        ),
        this.#download("report", "Report", "The incident as one HTML file that works offline"),
        this.#download("postmortem", "Postmortem", "Markdown and charts for an issue tracker"),
      ),
    ];
  }

  /**
   * @param {"report" | "postmortem"} kind
   * @param {string} label
   * @param {string} title
   */
  #download(kind, label, title) {
    const href = this.app.api.incidentFile(this.id, kind);
    return el("a.btn.wide-only", { href, download: "", title }, icon("down"), label);
  }

  /** @param {Incident} incident */
  #since({ onset_step: onset, lead }) {
    return dotted(
      onset === null ? "" : `since step ${int(onset)}`,
      lead.onset_ms ? `${clockTime(lead.onset_ms).slice(0, 5)}, ${ago(lead.onset_ms, this.#now())}` : "",
    );
  }

  /**
   * @param {Incident} incident
   * @returns {import("../components/alerts/diagnosis.js").Mover}
   */
  #mover(incident) {
    const to = (/** @type {number} */ step) =>
      go(runAddress(incident.run_id, { at: step, alert: incident.lead.id }));
    return { go: to, around: (alert) => to(Number(alert.onset_step)), now: () => this.#now() };
  }

  #now() {
    return this.app.clock.now();
  }

  #tick() {
    const incident = this.#incident();
    if (!incident) return;
    say(this.since, this.#since(incident));
    this.since.title = moment(incident.lead.onset_ms);
    say(this.age, standing(incident, this.#now()));
    this.age.title = moment(incident.fired_ms ?? incident.onset_ms);
  }

  /** @param {Alert} alert */
  #open(alert) {
    go(runAddress(alert.run_id, { at: alert.onset_step, alert: alert.id }));
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    const incident = this.#incident();
    if (!incident || !isShortcut(event)) return;
    const { may, acknowledge, silence } = alertActs(this.app, incident.lead);
    if (event.key === "a" && may) acknowledge();
    else if (event.key === "s" && may) silence();
    else if (event.key === "o") this.#open({ ...incident.lead, onset_step: incident.onset_step });
    else return;
    event.preventDefault();
  }
}

/** @type {OpenPage} */
export function incidentPage(app, main, id) {
  const page = new IncidentPage(app, main, id);
  page.open();
  return { close: () => page.close() };
}
