/** The filter of the inbox: state with counts, text, severity, project and rule. */

import { el, refill, say } from "../../browser/dom.js";
import { STATES } from "../../lib/alerts/inbox.js";
import { int } from "../../lib/format.js";
import { selectInput } from "../inputs.js";
import { icon } from "../icons.js";

/** @typedef {import("../../lib/alerts/inbox.js").InboxView} InboxView */

const TITLES = {
  open: "Open",
  mine: "Mine",
  silenced: "Silenced",
  pending: "Pending",
  resolved: "Closed",
  all: "All",
};
const NOTES = {
  open: "Open, or the run ended with it; not silenced",
  mine: "Acknowledged by me",
  silenced: "Silenced, or inhibited by another alert",
  pending: "Condition met, but not yet long enough to fire",
  resolved: "Resolved, or acknowledged after the run ended",
  all: "All incidents",
};

export class InboxBar {
  /** @param {(change: Partial<InboxView>) => void} set */
  constructor(set) {
    this.states = STATES.map((state) =>
      el(
        "button",
        {
          type: "button",
          "data-state": state,
          title: NOTES[state],
          onclick: () => set({ state, alert: null }),
        },
        `${TITLES[state]} `,
        el("b"),
      ),
    );
    this.input = /** @type {HTMLInputElement} */ (
      el("input", {
        placeholder: "rule: project: run: severity:",
        spellcheck: "false",
        "aria-label": "Filter incidents",
        oninput: () => set({ q: this.input.value }),
      })
    );
    this.severity = selectInput(
      [
        ["", "all severities"],
        ["critical", "critical"],
        ["warning", "warning"],
        ["info", "info"],
      ],
      "",
      { "aria-label": "Severity", onchange: () => set({ severity: this.severity.value }) },
    );
    this.project = selectInput([["", "all projects"]], "", {
      "aria-label": "Project",
      onchange: () => set({ project: this.project.value }),
    });
    this.rule = selectInput([["", "all rules"]], "", {
      "aria-label": "Rule",
      onchange: () => set({ rule: this.rule.value }),
    });
    this.node = el(
      "div.bar.inboxbar",
      { role: "search" },
      el("span.seg.scrollseg", { role: "group", "aria-label": "Which incidents" }, ...this.states),
      el("label.field.query", {}, icon("search"), this.input, el("kbd.wide-only", {}, "/")),
      this.severity,
      this.project,
      this.rule,
    );
  }

  /** @param {InboxView} view */
  show(view) {
    if (this.input.value !== view.q) this.input.value = view.q;
    this.severity.value = view.severity;
    for (const button of this.states) {
      button.setAttribute("aria-pressed", String(button.dataset.state === view.state));
    }
  }

  /**
   * Show how many alerts are in each state, and offer the projects and rules that occur.
   *
   * @param {Record<InboxView["state"], number>} counts
   * @param {Alert[]} all
   * @param {InboxView} view
   */
  count(counts, all, view) {
    for (const button of this.states) {
      const number = button.querySelector("b");
      if (number) say(number, int(counts[/** @type {InboxView["state"]} */ (button.dataset.state)]));
    }
    this.#choices(
      this.project,
      "all projects",
      all.map((alert) => alert.project),
      view.project,
    );
    this.#choices(
      this.rule,
      "all rules",
      all.map((alert) => alert.rule),
      view.rule,
    );
  }

  /**
   * @param {HTMLSelectElement} select
   * @param {string} every
   * @param {string[]} values
   * @param {string} chosen
   */
  #choices(select, every, values, chosen) {
    const known = [...new Set([...values, ...(chosen ? [chosen] : [])])].sort();
    const key = known.join("\n");
    if (select.dataset.key !== key) {
      select.dataset.key = key;
      refill(
        select,
        el("option", { value: "" }, every),
        ...known.map((value) => el("option", { value }, value)),
      );
    }
    if (select.value !== chosen) select.value = chosen;
  }
}
