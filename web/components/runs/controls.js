/** Controls above the charts: x axis, smoothing, attempts, ranks. The choices go into the address. */

import { el, focusIn, refill } from "../../browser/dom.js";
import { attemptInk } from "../../lib/charts/picture.js";
import { int, moment } from "../../lib/format.js";
import { SmoothingChoice } from "./smoothing.js";
import { XChoice } from "./xchoice.js";

const X_KINDS = /** @type {const} */ ([
  ["step", "Step"],
  ["relative", "Relative"],
  ["wall", "Wall time"],
]);
/** The most ranks listed one by one; the others are included in the band and in "every rank". */
const MOST_RANKS = 256;

/** @typedef {import("../../lib/views/runview.js").View} View */

export class Controls {
  /** @param {{ view: () => View, set: (change: Partial<View>) => void }} source */
  constructor(source) {
    this.source = source;
    this.x = new XChoice(X_KINDS, (axis) => source.set({ ...axis, span: null }));
    this.smoothing = new SmoothingChoice(source);
    this.ranks = /** @type {HTMLSelectElement} */ (
      el("select", { "aria-label": "Ranks", onchange: () => source.set({ ranks: this.ranks.value }) })
    );
    this.ranksBox = el("label.row.tight", { hidden: true }, el("span.soft", {}, "Ranks"), this.ranks);
    this.node = el("div.row.controls", {}, this.x.node, this.smoothing.node, this.ranksBox);
    this.attempts = el("div.row.attempts", { role: "group", "aria-label": "Attempts", hidden: true });
    this.keys = { ranks: "", attempts: "" };
  }

  /**
   * @param {RunDetail | null} run
   * @param {number[]} ranks
   */
  show(run, ranks) {
    const view = this.source.view();
    this.x.show(view, run?.series.map(({ name }) => name).sort() ?? []);
    this.smoothing.show();
    this.#ranks(ranks, view.ranks);
    this.#attempts(run?.attempts_list ?? [], view.older);
  }

  /**
   * @param {number[]} ranks
   * @param {string} chosen
   */
  #ranks(ranks, chosen) {
    this.ranksBox.hidden = ranks.length < 2;
    const key = ranks.join(" ");
    if (key !== this.keys.ranks) {
      this.keys.ranks = key;
      const choices = [
        ["band", `range of ${ranks.length}`],
        ["each", "every rank"],
        ...ranks.slice(0, MOST_RANKS).map((rank) => [String(rank), `rank ${rank}`]),
      ];
      refill(this.ranks, ...choices.map(([value, text]) => el("option", { value }, text)));
    }
    if (this.ranks.value !== chosen) this.ranks.value = chosen;
  }

  /**
   * The legend of attempts. The newest is always shown; an older one is shown in full, with its own color, if
   * selected.
   *
   * @param {RunDetail["attempts_list"]} list
   * @param {number[]} older
   */
  #attempts(list, older) {
    this.attempts.hidden = list.length < 2;
    const key = JSON.stringify([list, older]);
    if (key === this.keys.attempts || list.length < 2) return;
    this.keys.attempts = key;
    const focused =
      document.activeElement instanceof HTMLElement && this.attempts.contains(document.activeElement)
        ? document.activeElement.dataset.attempt
        : null;
    const newest = Math.max(...list.map((each) => each.attempt));
    refill(
      this.attempts,
      el("span.micro", {}, "Attempts"),
      ...[...list].sort((a, b) => b.attempt - a.attempt).map((each) => this.#attempt(each, newest, older)),
      el("span.micro.wide-only", {}, "replayed steps stay faint"),
    );
    if (focused) focusIn(this.attempts, `[data-attempt="${focused}"]`);
  }

  /**
   * @param {RunDetail["attempts_list"][number]} each
   * @param {number} newest
   * @param {number[]} older
   */
  #attempt({ attempt, first_step, last_step, started_ms }, newest, older) {
    const on = attempt === newest || older.includes(attempt);
    const ink = attempt === newest ? "--run-1" : on ? attemptInk(attempt) : "--line-strong";
    const text = `${attempt}${attempt === newest ? ", newest" : ""}`;
    const steps = first_step === null ? "no steps" : `${int(first_step)} – ${int(last_step)}`;
    return el(
      "button.btn.tinychip",
      {
        type: "button",
        "data-attempt": String(attempt),
        "aria-pressed": String(on),
        disabled: attempt === newest,
        title: `Started ${moment(started_ms)}`,
        onclick: () =>
          this.source.set({ older: on ? older.filter((n) => n !== attempt) : [...older, attempt] }),
      },
      el("i.swatch", { "--ink": `var(${ink})` }),
      text,
      el("span.muted", {}, steps),
    );
  }
}
