/** Sparklines of the runs whose incidents are listed, loaded when a run is first shown. */

/** Runs in one request, and kept; with more incidents than that on a page, the later ones have no chart. */
const MOST = 200;

export class Thumbnails {
  /** @type {Map<string, Record<string, Spark>>} by run; empty until loaded */
  #sparks = new Map();

  /**
   * @param {Pick<import("./api.js").Api, "rowsOf">} api
   * @param {() => void} changed
   */
  constructor(api, changed) {
    this.api = api;
    this.changed = changed;
  }

  /**
   * Load the sparklines of these runs that are not known yet.
   *
   * @param {string[]} runs
   */
  async want(runs) {
    const room = MOST - this.#sparks.size;
    const missing = [...new Set(runs)].filter((run) => !this.#sparks.has(run)).slice(0, room);
    if (!missing.length) return;
    for (const run of missing) this.#sparks.set(run, {});
    await this.#load(missing);
  }

  /** Load all again, because runs go on. */
  async refresh() {
    if (this.#sparks.size) await this.#load([...this.#sparks.keys()]);
  }

  /**
   * @param {string} run
   * @param {string} signal of the alert
   * @returns {Spark | null} the curve of the signal, else of the loss; null if neither is known
   */
  of(run, signal) {
    const sparks = this.#sparks.get(run) ?? {};
    return [sparks[signal], sparks.loss].find((spark) => spark?.buckets.some(Boolean)) ?? null;
  }

  /** @param {string[]} runs */
  async #load(runs) {
    try {
      const { items } = await this.api.rowsOf(runs);
      for (const { id, sparks } of items) this.#sparks.set(id, sparks ?? {});
      this.changed();
    } catch {
      for (const run of runs) {
        if (!Object.keys(this.#sparks.get(run) ?? {}).length) this.#sparks.delete(run); // asked again
      }
    }
  }
}
