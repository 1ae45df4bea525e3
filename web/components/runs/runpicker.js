/** A box to choose a run by its name or id. */

import { el, refill } from "../../browser/dom.js";

export class RunPicker {
  /** @type {Map<string, string>} text of an option -> id of its run */
  #offered = new Map();

  /** @param {(id: string) => void} chosen */
  constructor(chosen) {
    this.chosen = chosen;
    this.input = /** @type {HTMLInputElement} */ (
      el("input", {
        list: "all-runs",
        placeholder: "add a run by name",
        "aria-label": "Add a run",
        onchange: () => this.#picked(),
      })
    );
    this.options = el("datalist", { id: "all-runs" });
    this.node = el("label.field.query", {}, this.input);
  }

  /** @param {RunRow[]} rows */
  offer(rows) {
    this.#offered = new Map(rows.map((row) => [`${row.name} · ${row.project} · ${row.id}`, row.id]));
    refill(this.options, ...[...this.#offered.keys()].map((value) => el("option", { value })));
  }

  #picked() {
    const text = this.input.value.trim();
    const id =
      this.#offered.get(text) ??
      [...this.#offered].find(([label, each]) => each === text || label.startsWith(`${text} · `))?.[1];
    if (id) {
      this.input.value = "";
      this.chosen(id);
    }
    this.input.setCustomValidity(id || !text ? "" : "No run has this name.");
    this.input.reportValidity();
  }
}
