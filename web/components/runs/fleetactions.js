/**
 * What can be done with runs of the fleet: archive, delete, restore. Each shows what it did, with an undo.
 *
 * Data: data/api.js. After each action, the page loads the rows again.
 */

import { GRACE_S } from "../../lib/drafts.js";
import { counted, span } from "../../lib/format.js";
import { showUndo } from "../undo.js";

export class FleetActions {
  /**
   * @param {import("../../data/api.js").Api} api
   * @param {{ done: () => void, changed: (row: RunRow) => void }} page done: several runs; changed: one
   */
  constructor(api, page) {
    this.api = api;
    this.page = page;
  }

  /**
   * Apply an action to runs one by one; return how many succeeded, and report why others failed.
   *
   * @param {string[]} ids
   * @param {(id: string) => Promise<unknown>} act
   * @param {string} done
   */
  async #each(ids, act, done) {
    const good = /** @type {string[]} */ ([]);
    let why = "";
    for (const id of ids) {
      try {
        await act(id);
        good.push(id);
      } catch (error) {
        why = /** @type {Error} */ (error).message;
      }
    }
    if (why) {
      showUndo(`${counted(ids.length - good.length, "run was", "runs were")} not ${done}: ${why}`, null);
    }
    this.page.done();
    return good;
  }

  /**
   * @param {string[]} ids
   * @param {boolean} archived
   */
  async archiveAll(ids, archived) {
    const good = await this.#each(
      ids,
      (id) => this.api.archive(id, archived),
      archived ? "archived" : "restored",
    );
    if (good.length) {
      showUndo(
        archived
          ? `${counted(good.length, "run is", "runs are")} archived and hidden from the fleet.`
          : `${counted(good.length, "run is", "runs are")} back in the fleet.`,
        () => void this.archiveAll(good, !archived),
      );
    }
  }

  /**
   * Schedule the deletion for everyone; a click can cancel it for a while.
   *
   * @param {string[]} ids
   */
  async removeAll(ids) {
    const good = await this.#each(ids, (id) => this.api.remove(id, GRACE_S), "deleted");
    if (good.length) {
      showUndo(
        `${counted(good.length, "run", "runs")} will be deleted in ${span(GRACE_S)}.`,
        () => void this.restoreAll(good),
      );
    }
  }

  /** @param {string[]} ids */
  async restoreAll(ids) {
    await this.#each(ids, (id) => this.api.restore(id), "restored");
  }

  /**
   * Archive a run, or show it again.
   *
   * @param {RunRow} row
   * @param {boolean} [quiet]
   */
  async toggle({ id, name, archived }, quiet = false) {
    try {
      const row = await this.api.archive(id, !archived);
      this.page.changed(row);
      if (!quiet) {
        showUndo(
          archived ? `${name} is back in the fleet.` : `${name} is archived and hidden from the fleet.`,
          () => void this.toggle(row, true),
        );
      }
    } catch (error) {
      showUndo(
        `${name} was not ${archived ? "restored" : "archived"}: ${/** @type {Error} */ (error).message}`,
        null,
      );
    }
  }
}
