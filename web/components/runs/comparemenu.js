/**
 * The menu of a run page that compares the run: with its previous attempt, with the previous run of the same
 * name, with the baselines of its project, which all users see, with runs that are pinned in this browser, or
 * with others.
 */

import { go } from "../../browser/navigate.js";
import { readPins } from "../../data/pins.js";
import { int } from "../../lib/format.js";
import { previousAttempt, previousRun } from "../../lib/runs/previous.js";
import { announce } from "../announce.js";
import { menu } from "../menu.js";
import { notLoaded } from "../undo.js";

/**
 * @typedef {Pick<import("../../data/api.js").Api, "rowsOf" | "runsBefore" | "baselines" | "pinBaseline">}
 *   BaselinesApi
 */

/** As many runs as the menu lists. */
const MOST_LISTED = 20;

export class CompareMenu {
  #project = "";
  /** @type {string[]} ids */
  #pinned = [];
  /** @type {RunRow[]} baselines, and pinned runs of the project */
  #rows = [];
  /** @type {RunRow | null} the run before this one that has its name */
  #before = null;
  /** @type {number | null} */
  #attempt = null;

  /**
   * @param {BaselinesApi} api
   * @param {string} id
   * @param {boolean} may pin
   * @param {{ older: () => number[], show: (older: number[]) => void }} attempts that are drawn in full
   */
  constructor(api, id, may, attempts) {
    this.api = api;
    this.id = id;
    this.may = may;
    this.attempts = attempts;
    this.node = menu("Compare this run", () => this.#items(), { text: "Compare", shape: "compare" });
    this.node.classList.add("framed");
  }

  /** @param {RunRow} row */
  show(row) {
    if (row.project === this.#project) return;
    this.#project = row.project;
    void this.#load(row).catch(() => {
      this.#project = ""; // the menu has its other items, and asks again with the next row
    });
  }

  /** @param {RunDetail["attempts_list"]} attempts */
  offer(attempts) {
    this.#attempt = previousAttempt(attempts);
  }

  /** @param {RunRow} row */
  async #load(row) {
    const [{ runs }, { items }] = await Promise.all([
      this.api.baselines(this.#project),
      this.api.runsBefore(this.#project, this.id),
    ]);
    this.#before = previousRun(row, items);
    await this.#know(runs);
  }

  /** @param {string[]} pinned */
  async #know(pinned) {
    this.#pinned = pinned;
    const ids = [...new Set([...pinned, ...readPins(localStorage)])].filter((id) => id !== this.id);
    const { items } = ids.length ? await this.api.rowsOf(ids) : { items: [] };
    this.#rows = items.filter((row) => row.project === this.#project).slice(0, MOST_LISTED);
    this.node.dispatchEvent(new Event("itemschange"));
  }

  /** @returns {import("../menu.js").Item[]} */
  #items() {
    const pinned = this.#pinned.includes(this.id);
    return [
      { head: "Compare with" },
      ...this.#previous(),
      ...this.#rows.map(({ id, name }) => ({
        text: name,
        hint: this.#pinned.includes(id) ? "baseline" : "pinned",
        act: () => go(this.#against(id)),
      })),
      { text: "Runs that you choose…", act: () => go(this.#fleet()) },
      ...(this.may && this.#project
        ? [
            { head: "This run" },
            {
              text: pinned ? "Unpin as a baseline" : "Pin as a baseline",
              act: () => void this.#pin(!pinned).catch(notLoaded),
            },
          ]
        : []),
    ];
  }

  /** @returns {import("../menu.js").Item[]} */
  #previous() {
    const [attempt, before] = [this.#attempt, this.#before];
    const older = this.attempts.older();
    return [
      ...(attempt === null
        ? []
        : [
            {
              text: "Previous attempt",
              hint: `attempt ${int(attempt)}`,
              on: older.includes(attempt),
              alone: true,
              act: () => this.#overlay(attempt, older),
            },
          ]),
      ...(before === null
        ? []
        : [{ text: before.name, hint: "previous run", act: () => go(this.#against(before.id)) }]),
    ];
  }

  /**
   * Draw an attempt in full and in its own color, or faint again.
   *
   * @param {number} attempt
   * @param {number[]} older
   */
  #overlay(attempt, older) {
    const on = !older.includes(attempt);
    this.attempts.show(on ? [...older, attempt] : older.filter((each) => each !== attempt));
    announce(on ? `Attempt ${int(attempt)} is drawn beside the newest` : `Attempt ${int(attempt)} is faint`);
  }

  /** @param {boolean} pinned */
  async #pin(pinned) {
    const { ask } = await import("../form.js");
    const project = this.#project;
    ask(
      pinned ? "Pin as a baseline" : "Unpin as a baseline",
      pinned
        ? `Everyone can compare runs of ${project} with this one, from the menu Compare.`
        : `Runs of ${project} no longer offer this one in their menu Compare.`,
      pinned ? "Pin" : "Unpin",
      async () => {
        await this.#know((await this.api.pinBaseline(project, { run: this.id, pinned })).runs);
        announce(pinned ? "Pinned as a baseline" : "Unpinned");
      },
    );
  }

  /**
   * Return the address that compares this run with a baseline.
   *
   * @param {string} id
   */
  #against(id) {
    const runs = [id, this.id].map((run) => /** @type {[string, string]} */ (["run", run]));
    return `/compare?${new URLSearchParams([...runs, ["base", id]])}`;
  }

  /** Return the address of the runs of the project, with this one selected. */
  #fleet() {
    const q = `project:"${this.#project}"`;
    return `/?${new URLSearchParams({ q, pick: this.id })}`;
  }
}
