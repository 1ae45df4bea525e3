/** The choice of the runs of a backtest: the usual ones, those with incidents, or any of the scope. */

import { el, focusIn, refill, say } from "../../browser/dom.js";
import { counted, dotted, int } from "../../lib/format.js";
import { MOST_CHOSEN, usualRuns } from "../../lib/rules/rulescope.js";

export class TrialRuns {
  /** @type {ScopedRun[]} */
  #runs = [];
  #offered = false;
  /** @type {Set<string> | null} null: the user chose none */
  #chosen = null;

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.label = el("span");
    this.search = /** @type {HTMLInputElement} */ (
      el("input.plain", {
        type: "search",
        placeholder: "name or project",
        "aria-label": "Search runs to test",
        oninput: () => this.#list(),
      })
    );
    this.count = el("span.micro", { role: "status" });
    this.rows = el("ul.trialpick");
    this.close = (/** @type {Event} */ event) => {
      const { key } = /** @type {KeyboardEvent} */ (event);
      const away = event.type === "pointerdown" && !this.node.contains(/** @type {Node} */ (event.target));
      if (key !== "Escape" && !away) return;
      this.node.open = false;
      if (!away) focusIn(this.node, "summary");
    };
    this.node = /** @type {HTMLDetailsElement} */ (this.#frame());
    this.#show();
  }

  #frame() {
    return el(
      "details.trialruns",
      {
        ontoggle: () => {
          const act = this.node.open ? "addEventListener" : "removeEventListener";
          document[act]("pointerdown", this.close);
          this.node[act]("keydown", this.close);
        },
      },
      el("summary.btn", {}, this.label),
      el(
        "div.trialpicker",
        {},
        el(
          "div.row",
          {},
          this.#preset("Suggested", () => null),
          this.#preset("With incidents", () => this.#runs.filter((run) => run.incidents > 0)),
          this.#preset("Newest 20", () => this.#runs.slice(0, 20)),
        ),
        this.search,
        this.rows,
        this.count,
      ),
    );
  }

  /**
   * @param {string} text
   * @param {() => ScopedRun[] | null} pick
   */
  #preset(text, pick) {
    return el(
      "button.btn",
      {
        type: "button",
        onclick: () => {
          const found = pick();
          this.#chosen = found && new Set(found.slice(0, MOST_CHOSEN).map((run) => run.id));
          this.#show();
          this.changed();
        },
      },
      text,
    );
  }

  /** Return the ids of the runs to test. */
  get ids() {
    const chosen = this.#chosen;
    if (!chosen) return usualRuns(this.#runs);
    return this.#runs.filter((run) => chosen.has(run.id)).map((run) => run.id);
  }

  /**
   * Offer the runs of another scope; chosen ones that are still in it stay chosen.
   *
   * @param {ScopedRun[]} runs
   */
  offer(runs) {
    this.#runs = runs;
    this.#offered = true;
    if (this.#chosen && !runs.some((run) => this.#chosen?.has(run.id))) this.#chosen = null;
    this.#show();
  }

  #show() {
    this.#count(this.ids.length);
    this.#list();
  }

  /** @param {number} chosen */
  #count(chosen) {
    say(this.label, this.#offered ? `Runs: ${int(chosen)} of ${int(this.#runs.length)}` : "Runs");
  }

  #list() {
    const asked = this.search.value.trim().toLowerCase();
    const ids = new Set(this.ids);
    const found = this.#runs.filter((run) => `${run.name} ${run.project}`.toLowerCase().includes(asked));
    refill(
      this.rows,
      ...found.map((run) => this.#row(run, ids.has(run.id), ids.size >= MOST_CHOSEN && !ids.has(run.id))),
    );
    if (!found.length) refill(this.rows, el("li.soft", {}, "No run matches."));
    say(this.count, ids.size >= MOST_CHOSEN ? `At most ${MOST_CHOSEN} runs can be tested at once.` : "");
  }

  /**
   * @param {ScopedRun} run
   * @param {boolean} on
   * @param {boolean} full
   */
  #row(run, on, full) {
    const box = /** @type {HTMLInputElement} */ (
      el("input", { type: "checkbox", disabled: full, onchange: () => this.#toggle(run.id, box.checked) })
    );
    box.checked = on;
    const about = dotted(run.project, run.incidents ? counted(run.incidents, "incident") : "");
    return el(
      "li",
      {},
      el("label.check", {}, box, el("span.clip", {}, run.name || run.id), el("span.micro.clip", {}, about)),
    );
  }

  /**
   * @param {string} id
   * @param {boolean} on
   */
  #toggle(id, on) {
    const ids = new Set(this.ids);
    if (on) ids.add(id);
    else ids.delete(id);
    this.#chosen = ids;
    this.#count(ids.size);
    if (ids.size >= MOST_CHOSEN - 1) this.#list();
    this.changed();
  }
}
