/** A box to choose a run by its name or id. */

import { el, refill } from "../../browser/dom.js";

export class RunPicker {
  /** @type {Map<string, string>} text of an option -> id of its run */
  #offered = new Map();
  #asked = false;

  /**
   * @param {() => Promise<{ items: RunRow[] }>} runs loads all runs, once the box is used: there may be
   *   thousands
   * @param {(id: string) => void} chosen
   */
  constructor(runs, chosen) {
    this.runs = runs;
    this.chosen = chosen;
    this.input = /** @type {HTMLInputElement} */ (
      el("input", {
        list: "all-runs",
        placeholder: "add a run by name",
        "aria-label": "Add a run",
        onfocus: () => void this.#offer(),
        onchange: () => void this.#picked(),
      })
    );
    this.options = el("datalist", { id: "all-runs" });
    this.node = el("label.field.query", {}, this.input);
  }

  /** Load the names. The box accepts ids too, so a failure is not shown. */
  async #offer() {
    if (this.#asked) return;
    this.#asked = true;
    this.loading = this.runs().then(
      ({ items }) => {
        this.#offered = new Map(items.map((row) => [`${row.name} · ${row.project} · ${row.id}`, row.id]));
        refill(this.options, ...[...this.#offered.keys()].map((value) => el("option", { value })));
      },
      () => {
        this.#asked = false;
      },
    );
    await this.loading;
  }

  async #picked() {
    await this.loading;
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
