/** Events of a run, newest first, filtered by kind; each links to its step in the charts. */

import { el, refill, say } from "../../browser/dom.js";
import { clock, counted, int, moment } from "../../lib/format.js";
import { eventText } from "../../lib/runs/eventtext.js";

/** The most events listed. */
const MOST = 300;

export class EventLog {
  /** @param {(step: number) => void} go */
  constructor(go) {
    this.go = go;
    /** @type {RunEvent[]} */
    this.events = [];
    this.kind = /** @type {HTMLSelectElement} */ (
      el("select", { "aria-label": "Kind of event", onchange: () => this.#list() })
    );
    this.count = el("span.muted");
    this.body = el("div");
    this.node = el("div", {}, el("div.bar", {}, this.kind, this.count), this.body);
    this.kinds = "";
  }

  /** @param {RunEvent[]} events */
  show(events) {
    this.events = events;
    const kinds = [...new Set(events.map((event) => event.kind))].sort();
    const chosen = this.kind.value;
    this.kind.hidden = !kinds.length;
    if (kinds.join("\n") !== this.kinds) {
      this.kinds = kinds.join("\n");
      refill(
        this.kind,
        el("option", { value: "" }, "all kinds"),
        ...kinds.map((kind) => el("option", { value: kind }, kind)),
      );
      this.kind.value = kinds.includes(chosen) ? chosen : "";
    }
    this.#list();
  }

  #list() {
    const found = this.events.filter((event) => !this.kind.value || event.kind === this.kind.value);
    const shown = [...found].reverse().slice(0, MOST);
    say(
      this.count,
      shown.length < found.length
        ? `newest ${int(shown.length)} of ${int(found.length)}`
        : counted(found.length, "event"),
    );
    refill(
      this.body,
      shown.length
        ? this.#table(shown)
        : el(
            "p.muted",
            {},
            'No events yet. Scripts create them with run.event("checkpoint", path=…) and run.evaluate(…).',
          ),
    );
  }

  /** @param {RunEvent[]} events */
  #table(events) {
    const head = el(
      "tr",
      {},
      el("th.n", { scope: "col" }, "Step"),
      ...["Time", "Event", "Details"].map((text) => el("th", { scope: "col" }, text)),
    );
    return el(
      "div.scroll",
      { tabindex: "0", role: "region", "aria-label": "Events" },
      el(
        "table.plain-table",
        {},
        el("thead", {}, head),
        el("tbody", {}, ...events.map((event) => this.#row(event))),
      ),
    );
  }

  /** @param {RunEvent} event */
  #row({ step, time_ms, kind, data }) {
    const where =
      step === null
        ? "–"
        : el(
            "button.linkish",
            { type: "button", title: "Show this step in the charts", onclick: () => this.go(step) },
            int(step),
          );
    const what = eventText({ kind, data });
    return el(
      "tr",
      {},
      el("td.n", {}, where),
      el("td.nowrap", {}, el("span", { title: moment(time_ms) }, clock(time_ms))),
      el("td", {}, kind),
      el("td", {}, el("span.prose", {}, what)),
    );
  }
}
