/** What differs between the newest attempt of a run and the one before it: settings, code, versions. */

import { el, refill } from "../../browser/dom.js";
import { previousAttempt } from "../../lib/runs/previous.js";
import { comparisonOf } from "../incident/changes.js";

export class AttemptChanges {
  /** @type {number | null} */
  #previous = null;
  #key = "";

  /** @param {(attempt: number) => Promise<RunChanges>} ask what differs from an attempt */
  constructor(ask) {
    this.ask = ask;
    this.node = el("section.changed.then", { hidden: true, "aria-label": "What changed" });
  }

  /**
   * Load what differs from the previous attempt, if there is one and the newest has changed.
   *
   * @param {RunDetail} run
   */
  async load({ attempts_list: attempts, config, environment }) {
    this.#previous = previousAttempt(attempts);
    const key = JSON.stringify([attempts.length, this.#previous, config, environment]);
    if (this.#previous === null || key === this.#key) return;
    this.#key = key;
    try {
      this.#draw(await this.ask(this.#previous));
    } catch {
      this.#key = ""; // asked again when the run is shown again
    }
  }

  /** @param {RunChanges} found */
  #draw({ comparisons }) {
    this.node.hidden = !comparisons.length;
    refill(this.node, el("h3", {}, "What changed"), ...comparisons.map(comparisonOf));
  }
}
