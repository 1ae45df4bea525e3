/** One alert in full: likely cause, first action, evidence, timeline, other explanations, how to confirm. */

import { el } from "../../browser/dom.js";
import { isOpen, isOver, resolvedWord } from "../../lib/alerts/attention.js";
import { asText, evidenceText } from "../../lib/alerts/evidence.js";
import {
  clock as clockTime,
  counted,
  dotted,
  int,
  moment,
  powers,
  ruleTitle,
  span,
} from "../../lib/format.js";
import { isCommand } from "../../lib/highlight.js";
import { incidentAddress } from "../../lib/route.js";
import { codeBlock, copyButton } from "../code.js";
import { icon } from "../icons.js";

const MOST_LISTED = 50;

/** Entries of a timeline that are shown unfolded. */
const LONG = 10;

/** @typedef {{ go: (step: number) => void, around: (alert: Alert) => void, now: () => number }} Mover */

/**
 * Actions on an alert, and who took them.
 *
 * @typedef {{ may: boolean, acked: boolean, chips: { shape: string, text: string, title: string }[],
 *   acknowledge: () => void, silence: () => void }} Acts
 */

/**
 * Buttons to acknowledge and silence, and who did so.
 *
 * @param {Alert} alert
 * @param {Acts} acts
 */
export function actBar(alert, { may, acked, chips, acknowledge, silence }) {
  const resolved = alert.state === "resolved";
  const act = (
    /** @type {string} */ name,
    /** @type {string} */ text,
    /** @type {() => void} */ run,
    primary = false,
  ) =>
    el(
      "button.btn",
      { type: "button", "data-act": name, class: primary ? "primary" : "", onclick: run },
      text,
    );
  return [
    resolved || !may
      ? null
      : el(
          "div.pad.row.paneacts.still",
          {},
          act("ack", acked ? "Unacknowledge" : "Acknowledge", acknowledge, !acked),
          isOver(alert) ? null : act("silence", "Silence", silence),
        ),
    chips.length
      ? el(
          "ul.pad.marklist",
          {},
          ...chips.map(({ shape, text, title }) =>
            el(
              "li",
              {},
              icon(shape),
              el("span", {}, el("b", {}, text), el("br"), el("span.soft", {}, title)),
            ),
          ),
        )
      : null,
  ];
}

/**
 * "firing for 4 min", "resolved 03:12:44", "firing when the run ended 03:12:44".
 *
 * @param {Alert} alert
 * @param {number} now
 */
export function standing(alert, now) {
  if (alert.state === "resolved") return `${resolvedWord(alert)} ${clockTime(alert.resolved_ms)}`;
  if (alert.state === "ended") return `firing when the run ended ${clockTime(alert.resolved_ms)}`;
  const since = alert.fired_ms ?? alert.onset_ms;
  return since ? `${alert.state} for ${span(Math.max(0, Math.round((now - since) / 1000)))}` : alert.state;
}

/**
 * @param {Alert} alert
 * @param {Mover} mover
 * @param {object} context
 * @param {number | null} context.incidentOnset the step at which its incident began
 * @param {Acts | null} [context.acts] null: the actions are shown elsewhere
 * @param {Node | null} [context.resume] where to resume
 * @returns {HTMLElement}
 */
export function diagnosisCard(alert, mover, { incidentOnset, acts = null, resume = null }) {
  const why = alert.diagnosis;
  const { severity } = alert;
  const cause = powers(why?.cause || alert.summary);
  const sum = why?.cause ? powers(alert.summary) : "";
  return el(
    "article.card.diag",
    {
      class: alert.state === "resolved" ? `${severity} past` : severity,
      "aria-labelledby": "likely-cause",
      "data-alert": alert.id,
    },
    el(
      "header",
      {},
      el(
        "div.row",
        {},
        el("span", { class: `is-${severity}` }, icon(severity, severity)),
        el("span.strong", { class: `is-${severity}` }, ruleTitle(alert.rule)),
        el(
          "span.muted.standing",
          { title: moment(alert.fired_ms ?? alert.onset_ms) },
          standing(alert, mover.now()),
        ),
        el("span.grow"),
        alert.subject ? el("code.micro", {}, alert.subject) : null,
      ),
      sum ? el("p.soft", {}, sum) : null,
      el("p.likely-cause", { id: "likely-cause" }, cause),
      alert.late ? el("p.micro", {}, "From records that arrived late: no notifications were sent.") : null,
    ),
    firstAction(why),
    resume,
    ...(acts ? actBar(alert, acts) : []),
    moments(alert, mover, incidentOnset, acts !== null),
    evidence(why, mover),
    timelineOf(why, mover),
    otherExplanations(why),
    howToConfirm(why),
  );
}

/**
 * @param {Alert} alert
 * @param {Mover} mover
 * @param {number | null} incidentOnset
 * @param {boolean} linked with a link to the page of the incident
 */
function moments(alert, mover, incidentOnset, linked) {
  const { onset_step: onset, fired_step: fired } = alert;
  return el(
    "section.moments",
    {},
    el(
      "div.row",
      {},
      onset === null
        ? null
        : el(
            "button.btn.primary",
            { type: "button", onclick: () => mover.around(alert) },
            `Onset ${int(onset)}`,
          ),
      fired === null
        ? null
        : el("button.btn", { type: "button", onclick: () => mover.go(fired) }, `Fired ${int(fired)}`),
      el("span.grow"),
      linked && alert.incident ? el("a.btn", { href: incidentAddress(alert.incident) }, "Incident") : null,
      snapshotLink(alert),
      copyButton("Copy as text", () => asText(alert, location.href)),
    ),
    onset !== null && fired !== null
      ? el("p.micro.then", {}, `${detectionText(alert, fired - onset)}${earlierText(onset, incidentOnset)}`)
      : null,
  );
}

/**
 * Download of all series at full rate around the onset, as a file for `tocsin-server diagnose`.
 *
 * @param {Alert} alert
 */
const snapshotLink = (alert) =>
  alert.fired_ms === null
    ? null
    : el(
        "a.btn",
        {
          href: `/api/v1/alerts/${encodeURIComponent(alert.id)}/snapshot`,
          download: "",
          title: "All series at full rate around the onset, for tocsin-server diagnose",
        },
        "Incident snapshot",
      );

/**
 * @param {Diagnosis | null} why
 * @param {Mover} mover
 */
export function timelineOf(why, mover) {
  if (!why?.timeline?.length) return null;
  const rest = why.timeline.slice(LONG);
  return el(
    "section",
    {},
    el("h3", {}, "Timeline"),
    el("ol.timeline", {}, ...why.timeline.slice(0, LONG).map((entry) => timelineEntry(entry, mover))),
    rest.length
      ? el(
          "details",
          {},
          el("summary", {}, `And ${rest.length} more since step ${int(rest[0][0])}`),
          el("ol.timeline", {}, ...rest.map((entry) => timelineEntry(entry, mover))),
        )
      : null,
  );
}

/**
 * @param {[number, string, string]} entry
 * @param {Mover} mover
 */
const timelineEntry = ([step, text, rule], mover) =>
  el(
    "li",
    {},
    el(
      "button",
      { type: "button", title: `Show step ${int(step)} in the charts`, onclick: () => mover.go(step) },
      int(step),
    ),
    el("span.dot", { "aria-hidden": "true" }),
    el("span.t", {}, powers(text), rule ? el("span.micro.mono", {}, rule) : null),
  );

/**
 * @param {Diagnosis | null} why
 * @param {Mover} mover
 */
export function evidence(why, mover) {
  if (!why?.evidence?.length) return null;
  const traceback = why.evidence.find(({ name }) => name === "traceback");
  return el(
    "section",
    {},
    el("h3", {}, "Evidence"),
    traceback ? codeBlock("traceback", String(traceback.value)) : null,
    el(
      "table.evidence",
      {},
      el(
        "tbody",
        {},
        ...why.evidence
          .filter((item) => item !== traceback)
          .map((item) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, powers(item.name)),
              el("td", {}, evidenceText(item)),
              el("td", {}, stepLink(item.step, mover)),
            ),
          ),
      ),
    ),
  );
}

/**
 * @param {number | null | undefined} step
 * @param {Mover} mover
 */
const stepLink = (step, mover) =>
  step === null || step === undefined
    ? ""
    : el(
        "button.linkish",
        { type: "button", title: "Show this step in the charts", onclick: () => mover.go(step) },
        int(step),
      );

/** @param {Diagnosis | null} why */
export function firstAction(why) {
  const first = why?.remedies?.[0];
  return first ? el("section", {}, el("h3", {}, "First action"), remedy(first, "soft then0")) : null;
}

/**
 * @param {{ text: string, code: string }} each
 * @param {string} style
 */
const remedy = (each, style) =>
  el(
    "div",
    { class: style },
    el("p", {}, powers(each.text)),
    each.code
      ? el(
          "div.then",
          {},
          codeBlock(
            isCommand(each.code) ? "Run where it trains" : "Paste into the training script",
            each.code,
          ),
        )
      : null,
  );

/** @param {Diagnosis | null} why */
export function otherExplanations(why) {
  if (!why?.alternatives?.length) return null;
  return el(
    "section",
    {},
    el("h3", {}, "Other explanations"),
    el("ul.alts.soft", {}, ...why.alternatives.map((text) => el("li", {}, powers(text)))),
  );
}

/** @param {Diagnosis | null} why */
export function howToConfirm(why) {
  const rest = why?.remedies?.slice(1) ?? [];
  if (!why?.how_to_confirm && !rest.length) return null;
  return el(
    "section",
    {},
    why?.how_to_confirm ? el("h3", {}, "How to confirm") : null,
    why?.how_to_confirm ? el("p.soft", {}, powers(why.how_to_confirm)) : null,
    rest.length
      ? el(
          "details",
          {},
          el("summary", {}, `If it persists (${rest.length})`),
          ...rest.map((each) => remedy(each, "soft then")),
        )
      : null,
  );
}

/**
 * A list of the first alerts; the others are counted.
 *
 * @param {Alert[]} alerts
 * @param {string | null} chosen
 * @param {(alert: Alert) => void} choose
 * @param {number} now
 * @param {string} title
 */
export function alertList(alerts, chosen, choose, now, title) {
  const several = new Set(alerts.map((alert) => alert.run_id)).size > 1;
  const left = alerts.length - MOST_LISTED;
  return el(
    "section.card.others",
    { "aria-label": title },
    el("h2.pad", {}, `${title} `, el("span.muted", {}, int(alerts.length))),
    ...alerts.slice(0, MOST_LISTED).map((alert) =>
      el(
        "button.alertline",
        {
          type: "button",
          "aria-pressed": String(alert.id === chosen),
          class: isOpen(alert) ? "" : "past",
          onclick: () => choose(alert),
        },
        el(
          "span",
          { class: isOpen(alert) ? `is-${alert.severity}` : "muted" },
          icon(alert.severity, alert.severity),
        ),
        el(
          "span",
          {},
          ruleTitle(alert.rule),
          " ",
          el("span.micro", {}, alert.subject),
          el("br"),
          el(
            "span.micro",
            {},
            dotted(several ? alert.run_name : "", int(alert.onset_step), powers(alert.summary)),
          ),
        ),
        el("span.micro", { title: standing(alert, now) }, alert.state),
      ),
    ),
    left > 0 ? el("p.pad.micro", {}, `${counted(left, "more alert")} not shown`) : null,
  );
}

/**
 * "Detected 12 steps (2.8 s) after onset".
 *
 * @param {Alert} alert
 * @param {number} steps
 */
function detectionText(alert, steps) {
  if (steps === 0) return "Detected at onset";
  const { onset_ms: began, fired_ms: fired } = alert;
  const time = began && fired ? ` (${span((fired - began) / 1000)})` : "";
  return `Detected ${counted(steps, "step")}${time} after onset`;
}

/**
 * @param {number} onset
 * @param {number | null} incidentOnset
 */
const earlierText = (onset, incidentOnset) =>
  incidentOnset !== null && incidentOnset < onset
    ? `. The incident began at step ${int(incidentOnset)}.`
    : "";
