/** The menu of a run page that compares the run: with pinned runs of its project, or with others. */

import { go } from "../../browser/navigate.js";
import { readPins, writePins } from "../../data/pins.js";
import { menu } from "../menu.js";

/** As many pinned runs as the menu lists. */
const MOST_LISTED = 10;

export class CompareMenu {
  /** @type {RunRow | null} */
  #row = null;
  /** @type {RunRow[]} pinned runs */
  #pinned = [];

  /**
   * @param {Pick<import("../../data/api.js").Api, "rowsOf">} api
   * @param {string} id
   */
  constructor(api, id) {
    this.api = api;
    this.id = id;
    this.node = menu("Compare this run", () => this.#items(), { text: "Compare", shape: "compare" });
    this.node.classList.add("framed");
    void this.#load();
  }

  /** @param {RunRow} row */
  show(row) {
    this.#row = row;
  }

  /** Without them, the menu has its other items. */
  async #load() {
    const ids = [...readPins(localStorage)].filter((id) => id !== this.id);
    if (!ids.length) return;
    const { items } = await this.api.rowsOf(ids).catch(() => ({ items: [] }));
    this.#pinned = items;
  }

  /** @returns {import("../menu.js").Item[]} */
  #items() {
    const pins = readPins(localStorage);
    const pinned = pins.has(this.id);
    const others = this.#pinned.filter((row) => row.project === this.#row?.project).slice(0, MOST_LISTED);
    return [
      { head: "Compare with" },
      ...others.map(({ id, name }) => ({
        text: name,
        hint: "pinned",
        act: () =>
          go(
            `/compare?${new URLSearchParams([
              ["run", id],
              ["run", this.id],
              ["base", id],
            ])}`,
          ),
      })),
      { text: "Runs that you choose…", act: () => go(this.#fleet()) },
      { head: "This run" },
      {
        text: pinned ? "Unpin" : "Pin as a baseline",
        act: () => {
          if (!pins.delete(this.id)) pins.add(this.id);
          writePins(localStorage, pins);
        },
      },
    ];
  }

  /** Return the address of the runs of the project, with this one selected. */
  #fleet() {
    const q = `project:"${this.#row?.project ?? ""}"`;
    return `/?${new URLSearchParams({ q, pick: this.id })}`;
  }
}
