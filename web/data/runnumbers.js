/** The newest, smallest and largest value of metrics of the compared runs, as the server counts them. */

/** Runs in one request. */
const MOST_IDS = 100;

export class RunNumbers {
  /** @type {Map<string, Record<string, MetricSummary>>} */
  #found = new Map();
  #asked = "";
  /** Grows with each load, so that an older one ends. */
  #load = 0;

  /**
   * @param {Pick<import("./api.js").Api, "runMetrics">} api
   * @param {{ changed: () => void, failed: (error: Error) => void }} on
   */
  constructor(api, on) {
    this.api = api;
    this.on = on;
  }

  /**
   * Return the metrics of a run that are loaded.
   *
   * @param {string} id
   * @returns {Record<string, MetricSummary>}
   */
  of(id) {
    return this.#found.get(id) ?? {};
  }

  /**
   * Load these metrics of these runs, unless they are already.
   *
   * @param {string[]} names
   * @param {string[]} ids
   * @param {boolean} [again] load them in any case
   */
  async want(names, ids, again = false) {
    const asked = JSON.stringify([names, ids]);
    if (!names.length || !ids.length || (asked === this.#asked && !again)) return;
    this.#asked = asked;
    const load = ++this.#load;
    try {
      for (let from = 0; from < ids.length && load === this.#load; from += MOST_IDS) {
        const { metrics } = await this.api.runMetrics(names, { ids: ids.slice(from, from + MOST_IDS) });
        for (const [id, found] of metrics) this.#found.set(id, { ...this.#found.get(id), ...found });
        if (load === this.#load) this.on.changed();
      }
    } catch (error) {
      this.#asked = ""; // the next call loads them
      if (load === this.#load) this.on.failed(/** @type {Error} */ (error));
    }
  }

  close() {
    this.#load += 1;
  }
}
