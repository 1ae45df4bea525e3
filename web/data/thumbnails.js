/** Sparklines of the runs whose incidents are listed, loaded when a run is first shown. */

/** Runs in one request, so that its address stays short, and kept; incidents further down have no chart. */
const MOST = 100;

export class Thumbnails {
  /** @type {Map<string, { sparks: Record<string, Spark>, ended: boolean }>} by run; empty until loaded */
  #runs = new Map();

  /**
   * @param {Pick<import("./api.js").Api, "rowsOf">} api
   * @param {() => void} changed
   */
  constructor(api, changed) {
    this.api = api;
    this.changed = changed;
  }

  /**
   * Load the sparklines of these runs that are not known yet, and forget all others.
   *
   * @param {string[]} runs
   */
  async want(runs) {
    const wanted = new Set([...new Set(runs)].slice(0, MOST));
    for (const run of this.#runs.keys()) if (!wanted.has(run)) this.#runs.delete(run);
    const missing = [...wanted].filter((run) => !this.#runs.has(run));
    if (!missing.length) return;
    for (const run of missing) this.#runs.set(run, { sparks: {}, ended: false });
    await this.#load(missing);
  }

  /** Load the runs that go on again. */
  async refresh() {
    const live = [...this.#runs].filter(([, { ended }]) => !ended).map(([run]) => run);
    if (live.length) await this.#load(live);
  }

  /**
   * @param {string} run
   * @param {string} signal of the alert
   * @returns {Spark | null} the curve of the signal, else of the loss; null if neither is known
   */
  of(run, signal) {
    const sparks = this.#runs.get(run)?.sparks ?? {};
    return [sparks[signal], sparks.loss].find((spark) => spark?.buckets.some(Boolean)) ?? null;
  }

  /** @param {string[]} runs */
  async #load(runs) {
    try {
      const { items } = await this.api.rowsOf(runs);
      for (const { id, sparks, state } of items) {
        if (this.#runs.has(id)) {
          this.#runs.set(id, { sparks: sparks ?? {}, ended: state === "finished" || state === "failed" });
        }
      }
      this.changed();
    } catch {
      for (const run of runs) {
        if (!Object.keys(this.#runs.get(run)?.sparks ?? {}).length) this.#runs.delete(run); // asked again
      }
    }
  }
}
