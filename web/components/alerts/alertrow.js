/**
 * One row of the inbox: an incident. The node is kept while it changes, so that nothing flickers under the
 * pointer.
 */

import { el, refill, say } from "../../browser/dom.js";
import { isClosed, isOver, resolvedWord } from "../../lib/alerts/attention.js";
import { isMuted } from "../../lib/alerts/inbox.js";
import { runNames } from "../../lib/alerts/incidents.js";
import { ago, clock as clockTime, counted, int, moment, powers, ruleTitle, span } from "../../lib/format.js";
import { icon } from "../icons.js";
import { sparkline } from "../spark.js";
import { markTexts } from "./marktexts.js";

/** @typedef {import("./marktexts.js").RowContext} RowContext */

/**
 * Return the age of an open alert, or the time when it resolved or its run ended.
 *
 * @param {Alert} alert
 * @param {number} now
 * @returns {[string, string]}
 */
function standingTexts(alert, now) {
  if (isOver(alert)) {
    const word = alert.state === "ended" ? "run ended" : resolvedWord(alert);
    return [
      clockTime(alert.resolved_ms),
      now - (alert.resolved_ms ?? 0) > 86_400_000 ? ago(alert.resolved_ms, now) : word,
    ];
  }
  const since = alert.fired_ms ?? alert.onset_ms;
  return [since ? span(Math.max(0, Math.round((now - since) / 1000))) : "–", alert.state];
}

export class AlertRow {
  /**
   * @param {string} id
   * @param {{ choose: () => void, pick: () => void }} acts
   */
  constructor(id, acts) {
    this.shape = el("span.shape");
    this.title = el("span.strong");
    this.run = el("span.muted.clip");
    this.chips = el("span.chips");
    this.text = el("p");
    this.thumb = el("div.thumb");
    this.steps = el("div.nowrap");
    this.age = el("div.nowrap");
    this.stepsLabel = el("div.micro.nowrap");
    this.state = el("div.micro");
    this.when = el("div.when", {}, this.age, this.state);
    this.node = el(
      "div.al",
      {
        role: "option",
        id: `al-${id}`,
        "data-alert": id,
        "aria-selected": "false",
        onclick: (/** @type {MouseEvent} */ event) =>
          event.ctrlKey || event.metaKey ? acts.pick() : acts.choose(),
      },
      el("span.edge"),
      this.shape,
      el("div.what", {}, el("div.row", {}, this.title, this.run, this.chips), this.text),
      this.thumb,
      el("div.when.fired", {}, this.steps, this.stepsLabel),
      this.when,
    );
    this.key = "";
    /** @type {Spark | null} */
    this.spark = null;
    /** @type {number | null} */
    this.onset = null;
  }

  /**
   * @param {import("../../lib/alerts/incidents.js").Incident} alert
   * @param {RowContext} context
   * @param {boolean} chosen
   */
  show(alert, context, chosen) {
    this.node.setAttribute("aria-selected", String(chosen));
    const [age, state] = standingTexts(alert, context.now);
    say(this.age, age);
    this.#draw(alert, context.spark ?? null);
    const key = JSON.stringify([
      alert.state,
      alert.severity,
      alert.summary,
      alert.fired_step,
      alert.alerts.length,
      runNames(alert),
      context.marks,
      context.picked,
      state,
      context.marks.silenced_by.map((id) => context.silence(id)),
    ]);
    if (key === this.key) return;
    this.key = key;
    this.#write(alert, context, state);
  }

  /**
   * @param {import("../../lib/alerts/incidents.js").Incident} alert
   * @param {Spark | null} spark
   */
  #draw(alert, spark) {
    const { onset_step: onset, subject } = alert;
    if (spark === this.spark && onset === this.onset) return;
    this.spark = spark;
    this.onset = onset;
    const label = `${subject || "loss"} of the run; the incident began at step ${int(onset)}`;
    refill(this.thumb, spark ? sparkline(spark, { log: "auto", onset, label }) : null);
  }

  /**
   * @param {import("../../lib/alerts/incidents.js").Incident} alert
   * @param {RowContext} context
   * @param {string} state
   */
  #write(alert, context, state) {
    const done = isClosed(alert, context.marks.ack !== null);
    this.node.classList.toggle("done", done);
    this.node.classList.toggle("is-muted", isMuted(context.marks));
    this.node.classList.toggle("is-picked", context.picked);
    this.shape.className = `shape${done || alert.state === "pending" ? "" : ` is-${alert.severity}`}`;
    refill(this.shape, icon(alert.severity, alert.severity));
    say(this.title, ruleTitle(alert.rule));
    const runs = runNames(alert);
    refill(this.run, el("bdi", {}, runs), ` · ${alert.project}`);
    this.run.title = `${runs} · ${alert.project}`;
    say(this.text, powers(alert.summary));
    const { onset_step, fired_step } = alert;
    const known = [onset_step, fired_step].filter((step) => step !== null);
    say(this.steps, known.map(int).join(" → "));
    say(this.stepsLabel, ["", onset_step === null ? "fired" : "onset", "onset → fired"][known.length]);
    say(this.state, state);
    this.when.title = moment(alert.fired_ms ?? alert.onset_ms);
    refill(
      this.chips,
      alert.alerts.length > 1
        ? el(
            "span.chip",
            { title: [...new Set(alert.alerts.map(({ rule }) => ruleTitle(rule)))].join(", ") },
            counted(alert.alerts.length, "alert"),
          )
        : null,
      context.picked ? el("span.chip.picked", {}, icon("check"), "selected") : null,
      alert.late
        ? el("span.chip", { title: "From records that arrived late: no notifications were sent" }, "late")
        : null,
      ...markTexts(context.marks, context).map(({ shape, text, title }) =>
        el("span.chip", { title }, icon(shape), el("span.clip", {}, text)),
      ),
    );
  }
}
