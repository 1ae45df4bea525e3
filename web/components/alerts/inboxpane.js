/** The pane beside the inbox: the chosen incident, its alerts, who acknowledged it, history, and actions. */

import { el, focusIn, refill, say } from "../../browser/dom.js";
import { go } from "../../browser/navigate.js";
import { isOver } from "../../lib/alerts/attention.js";
import { isMuted } from "../../lib/alerts/inbox.js";
import { worded } from "../../lib/alerts/incidents.js";
import { alertAddress, runAddress } from "../../lib/route.js";
import { icon } from "../icons.js";
import { ResumeFrom } from "../incident/checkpoint.js";
import { markTexts } from "./marktexts.js";
import { alertList, diagnosisCard, standing } from "./diagnosis.js";
import { LifeLines } from "./lifelines.js";

/** @typedef {import("../../lib/alerts/incidents.js").Incident} Incident */
/**
 * @typedef {{ acknowledge: () => void, silence: () => void, back: () => void, choose: (id: string) => void }}
 *   PaneActs
 */

export class InboxPane {
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
    this.resume = new ResumeFrom(app);
    this.life = new LifeLines(() => app.clock.now());
    this.history = el("section.pad", { "aria-label": "History" }, el("h3", {}, "History"), this.life.node);
    this.node = el("aside.card.sticky.pane", { id: "pane", tabindex: "-1", "aria-label": "Chosen incident" });
  }

  /**
   * @param {Alert | null} alert the alert of the incident that is shown in full
   * @param {Incident | null} incident
   * @param {import("./marktexts.js").RowContext} context
   */
  show(alert, incident, context) {
    if (!alert || !incident) {
      this.#shown = this.#card = "";
      refill(this.node, el("p.pad.muted", {}, "Choose an incident to see its diagnosis."));
      return;
    }
    if (this.#shown !== alert.id) {
      this.#shown = alert.id;
      void this.life.show("", async () => []);
      this.node.scrollTop = 0;
      refill(
        this.node,
        el("h2.vh", {}, "Chosen incident"),
        this.actions,
        this.marks,
        this.card,
        this.members,
        this.history,
      );
    }
    this.#draw(alert, context, incident.onset_step);
    this.#list(alert, incident, context.now);
    const key = JSON.stringify([alert.id, alert.state, alert.severity, context.marks]);
    void this.life.show(key, async () => worded((await this.app.alerting.history(alert.id)).items));
    void this.resume.show(incident);
  }

  /**
   * @param {Alert} alert
   * @param {import("./marktexts.js").RowContext} context
   * @param {number | null} incidentOnset
   */
  #draw(alert, context, incidentOnset) {
    const { now } = context;
    const key = JSON.stringify([alert, context.marks.ack, incidentOnset]);
    this.#marks(context);
    if (key !== this.#card) {
      this.#card = key;
      this.#actions(alert, context);
      const opened = [...this.card.querySelectorAll("details")].map((each) => each.open);
      const moment = (/** @type {number} */ step) =>
        go(runAddress(alert.run_id, { at: step, alert: alert.id }));
      const mover = {
        go: moment,
        around: () => moment(Number(alert.onset_step)),
        now: () => this.app.clock.now(),
      };
      const card = diagnosisCard(alert, mover, { incidentOnset, resume: this.resume.node });
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
   * @param {import("./marktexts.js").RowContext} context
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
          title: "Charts of the onset, evidence, history",
          href: alertAddress(alert),
        },
        "Open ",
        el("kbd.wide-only", {}, "O"),
      ),
    );
    if (focused) focusIn(this.actions, `[data-act="${focused}"]`);
  }

  /** @param {import("./marktexts.js").RowContext} context */
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
}
