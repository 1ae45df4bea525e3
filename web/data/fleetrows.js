/** The rows of all runs: loaded, and updated by the socket, which is newer than a response on its way. */

import { Pushed } from "./pushed.js";

export class FleetRows {
  /** @type {Map<string, RunRow>} */
  byId = new Map();
  #pushed = new Pushed();

  /** @returns {number} the moment before a request, for `answer` and `sparks` */
  now() {
    return this.#pushed.now();
  }

  /** @param {{ items?: RunRow[], removed?: string[] }} frame rows without sparklines keep those they have */
  receive({ items = [], removed = [] }) {
    for (const row of items) this.change(row);
    for (const id of removed) {
      this.byId.delete(id);
      this.#pushed.add(id);
    }
  }

  /** @param {RunRow} row its current state */
  change(row) {
    this.#merge(row);
    this.#pushed.add(row.id);
  }

  /**
   * @param {RunRow[]} items all runs
   * @param {number} moment before the request
   */
  answer(items, moment) {
    const before = this.byId;
    const newer = (/** @type {string} */ id) => this.#pushed.since(id, moment);
    this.byId = new Map();
    for (const row of items) {
      const known = before.get(row.id);
      if (!newer(row.id)) this.byId.set(row.id, { ...known, ...row });
      else if (known) this.byId.set(row.id, known);
    }
    for (const [id, row] of before) if (newer(id)) this.byId.set(id, row);
  }

  /**
   * @param {RunRow[]} items runs with sparklines
   * @param {number} moment before the request
   */
  sparks(items, moment) {
    for (const row of items) {
      const known = this.byId.get(row.id);
      if (known && this.#pushed.since(row.id, moment)) this.#merge({ ...known, sparks: row.sparks });
      else if (known) this.#merge(row);
    }
  }

  /** @param {RunRow} row */
  #merge(row) {
    this.byId.set(row.id, { ...this.byId.get(row.id), ...row });
  }
}
