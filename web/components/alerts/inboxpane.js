/** The pane beside the inbox: the chosen incident, its alerts, who acknowledged it, history, and actions. */

import { el, focusIn, refill, say } from "../../browser/dom.js";
import { go } from "../../browser/navigate.js";
import { isOver } from "../../lib/alerts/attention.js";
import { isMuted } from "../../lib/alerts/inbox.js";
import { ago, clock as clockTime, moment, powers } from "../../lib/format.js";
import { runAddress } from "../../lib/route.js";
import { icon } from "../icons.js";
import { markTexts } from "./alertrow.js";
import { alertList, diagnosisCard, standing } from "./diagnosis.js";

/**
 * Display names of the history's entries.
 *
 * @type {Record<string, string>}
 */
const KINDS = {
  transition: "",
  ack: "acknowledged",
  unack: "unacknowledged",
  notification: "notified",
};

/** @typedef {import("../../lib/alerts/incidents.js").Incident} Incident */
/**
 * @typedef {{ acknowledge: () => void, silence: () => void, back: () => void, choose: (id: string) => void }}
 *   PaneActs
 */

export class InboxPane {
  #asked = "";
  #turn = 0;
  #shown = "";
  #card = "";

  /**
   * @param {App} app
   * @param {PaneActs} acts
   */
  constructor(app, acts) {
    this.app = app;
    this.acts = acts;
    this.actions = el("div.pad.row.paneacts");
    this.marks = el("ul.pad.marklist", { hidden: true });
    this.card = el("div");
    this.members = el("div", { hidden: true });
    this.resume = el("section.pad", { hidden: true });
    this.life = el("ol.life");
    this.history = el("section.pad", { "aria-label": "History" }, el("h3", {}, "History"), this.life);
    this.node = el("aside.card.sticky.pane", { id: "pane", tabindex: "-1", "aria-label": "Chosen incident" });
  }

  /**
   * @param {Alert | null} alert the alert of the incident that is shown in full
   * @param {Incident | null} incident
   * @param {import("./alertrow.js").RowContext} context
   */
  show(alert, incident, context) {
    if (!alert || !incident) {
      this.#shown = this.#card = this.#asked = "";
      refill(this.node, el("p.pad.muted", {}, "Choose an incident to see its diagnosis."));
      return;
    }
    if (this.#shown !== alert.id) {
      this.#shown = alert.id;
      this.#asked = "";
      refill(this.life);
      this.node.scrollTop = 0;
      refill(
        this.node,
        el("h2.vh", {}, "Chosen incident"),
        this.actions,
        this.marks,
        this.card,
        this.resume,
        this.members,
        this.history,
      );
    }
    this.#draw(alert, context);
    this.#list(alert, incident, context.now);
    void this.#ask(alert, context);
    void this.#checkpoint(incident);
  }

  /**
   * Show the last good checkpoint before an incident, if one is known; asked again when the incident changes.
   *
   * @param {Incident} incident
   */
  async #checkpoint(incident) {
    const key = JSON.stringify([incident.id, incident.state, incident.alerts.length]);
    if (key === this.resume.dataset.key) return;
    this.resume.dataset.key = key;
    this.resume.hidden = true;
    if (!incident.alerts[0].incident) return;
    try {
      const { resume } = await this.app.alerting.incident(incident.id);
      if (this.resume.dataset.key !== key || resume.path === null) return;
      refill(this.resume, el("h3", {}, "Last good checkpoint"), el("p.soft", {}, resume.text));
      this.resume.hidden = false;
    } catch {
      this.resume.dataset.key = "";
    }
  }

  /**
   * @param {Alert} alert
   * @param {import("./alertrow.js").RowContext} context
   */
  #draw(alert, context) {
    const { now } = context;
    const key = JSON.stringify([alert, context.marks.ack]);
    this.#marks(context);
    if (key !== this.#card) {
      this.#card = key;
      this.#actions(alert, context);
      const opened = [...this.card.querySelectorAll("details")].map((each) => each.open);
      const moment = (/** @type {number} */ step) =>
        go(runAddress(alert.run_id, { at: step, alert: alert.id }));
      const card = diagnosisCard(alert, {
        go: moment,
        around: () => moment(Number(alert.onset_step)),
        now: () => this.app.clock.now(),
      });
      card.classList.remove("card");
      refill(
        this.card,
        el(
          "p.pad.paneof",
          {},
          el("a.link", { href: runAddress(alert.run_id) }, alert.run_name),
          el("span.muted", {}, ` · ${alert.project}`),
        ),
        card,
      );
      [...this.card.querySelectorAll("details")].forEach((each, i) => {
        each.open = opened[i] ?? false;
      });
    }
    const age = this.card.querySelector(".standing");
    if (age) say(age, standing(alert, now));
  }

  /**
   * @param {Alert} alert
   * @param {Incident} incident
   * @param {number} now
   */
  #list(alert, incident, now) {
    this.members.hidden = incident.alerts.length < 2;
    const key = JSON.stringify([
      alert.id,
      incident.alerts.map(({ id, state, summary }) => [id, state, summary]),
    ]);
    if (this.members.dataset.key === key) return;
    this.members.dataset.key = key;
    const list = alertList(
      incident.alerts,
      alert.id,
      ({ id }) => this.acts.choose(id),
      now,
      "Alerts of this incident",
    );
    list.classList.remove("card");
    refill(this.members, list);
  }

  /**
   * @param {Alert} alert
   * @param {import("./alertrow.js").RowContext} context
   */
  #actions(alert, context) {
    const { ack } = context.marks;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.act;
    const resolved = alert.state === "resolved";
    refill(
      this.actions,
      el("button.btn.narrow", { type: "button", onclick: this.acts.back }, "Back to the list"),
      resolved
        ? null
        : el(
            "button.btn",
            {
              type: "button",
              "data-act": "ack",
              class: ack ? "" : "primary",
              onclick: this.acts.acknowledge,
            },
            ack ? "Unacknowledge " : "Acknowledge ",
            el("kbd.wide-only", {}, "A"),
          ),
      isOver(alert)
        ? null
        : el(
            "button.btn",
            { type: "button", "data-act": "silence", onclick: this.acts.silence },
            "Silence ",
            el("kbd.wide-only", {}, "S"),
          ),
      el(
        "a.btn",
        {
          "data-act": "open",
          title: "Open the run's charts at the onset",
          href: runAddress(alert.run_id, { at: alert.onset_step, alert: alert.id }),
        },
        "Open ",
        el("kbd.wide-only", {}, "O"),
      ),
    );
    if (focused) focusIn(this.actions, `[data-act="${focused}"]`);
  }

  /** @param {import("./alertrow.js").RowContext} context */
  #marks(context) {
    const texts = markTexts(context.marks, context);
    this.marks.hidden = !texts.length;
    const key = JSON.stringify(texts);
    if (this.marks.dataset.key === key) return;
    this.marks.dataset.key = key;
    refill(
      this.marks,
      ...texts.map(({ shape, text, title }) =>
        el("li", {}, icon(shape), el("span", {}, el("b", {}, text), el("br"), el("span.soft", {}, title))),
      ),
      isMuted(context.marks) ? el("li.micro", {}, "No notifications are sent while this holds.") : null,
    );
  }

  /**
   * Loaded again when the alert or its marks change.
   *
   * @param {Alert} alert
   * @param {import("./alertrow.js").RowContext} context
   */
  async #ask(alert, context) {
    const key = JSON.stringify([alert.id, alert.state, alert.severity, context.marks]);
    if (key === this.#asked) return;
    this.#asked = key;
    const mine = ++this.#turn;
    try {
      const { items } = await this.app.alerting.history(alert.id);
      if (mine === this.#turn) refill(this.life, ...items.map((line) => this.#line(line)));
    } catch (error) {
      if (mine !== this.#turn) return;
      this.#asked = "";
      if (!this.life.children.length) {
        refill(this.life, el("li.muted", {}, /** @type {Error} */ (error).message));
      }
    }
  }

  /** @param {LifeLine} line */
  #line({ kind, at_ms, text, state, by }) {
    const head = KINDS[kind] ?? kind;
    const shape =
      kind === "transition"
        ? state === "resolved"
          ? "check"
          : "bell"
        : kind === "notification"
          ? "mail"
          : "check";
    const failed = kind === "notification" && state === "failed";
    return el(
      "li",
      {},
      el(
        "span.muted.nowrap",
        { title: `${moment(at_ms)}, ${ago(at_ms, this.app.clock.now())}` },
        clockTime(at_ms),
      ),
      icon(failed ? "warning" : shape),
      el(
        "span",
        {},
        el(
          "b",
          {},
          kind === "transition" ? state : kind === "notification" && state !== "sent" ? state : head,
        ),
        by ? ` by ${by}` : "",
        text ? el("span.soft", {}, ` ${powers(text)}`) : null,
      ),
    );
  }
}
