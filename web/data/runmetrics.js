/** The metrics that the fleet needs for columns or its filter: of all runs, then of those that change. */

/** Runs in a request for those that changed. */
const MOST_IDS = 100;
const PAUSE_MS = 2_000;

export class RunMetrics {
  /** @type {string[]} */
  #names = [];
  /** @type {string[]} means of newest values: `10:val_loss` */
  #means = [];
  /** @type {Set<string>} runs whose metrics are loaded */
  #loaded = new Set();
  /** @type {Set<string>} */
  #changed = new Set();
  /** Grows with each load, so that an older one ends. */
  #load = 0;
  #busy = false;
  /** @type {unknown} */
  #timer = null;

  /**
   * @param {Pick<import("./api.js").Api, "runMetrics">} api
   * @param {(found: Map<string, Record<string, MetricSummary>>) => void} receive metrics by run
   * @param {{ later: (run: () => void, ms: number) => unknown, cancel: (timer: any) => void }} [clock]
   */
  constructor(
    api,
    receive,
    clock = { later: (run, ms) => setTimeout(run, ms), cancel: (timer) => clearTimeout(timer) },
  ) {
    this.api = api;
    this.receive = receive;
    this.clock = clock;
  }

  /**
   * Return whether the metrics of a run are loaded, so that one that it lacks is known to be missing.
   *
   * @param {string} id
   */
  isLoaded(id) {
    return this.#loaded.has(id);
  }

  /**
   * Load these metrics of all runs, unless they are already.
   *
   * @param {string[]} names
   * @param {{ means?: string[], again?: boolean }} [more] means: of newest values of some of them,
   *   `10:val_loss`; again: load them in any case
   */
  async want(names, { means = [], again = false } = {}) {
    const lacking =
      names.some((name) => !this.#names.includes(name)) || means.some((mean) => !this.#means.includes(mean));
    [this.#names, this.#means] = [names, means];
    if (lacking) this.#loaded.clear();
    if (!names.length || !(lacking || again)) return;
    const load = ++this.#load;
    try {
      /** @type {string | null} */
      let after = null;
      do {
        after = await this.#ask({ after });
      } while (after !== null && load === this.#load);
    } catch {
      if (load === this.#load) this.#names = []; // the next call loads them
    }
  }

  /**
   * Load the metrics of runs that changed, after a pause.
   *
   * @param {string[]} ids
   */
  touch(ids) {
    if (!this.#names.length) return;
    for (const id of ids) this.#changed.add(id);
    if (this.#changed.size && !this.#timer && !this.#busy) {
      this.#timer = this.clock.later(() => void this.#refresh(), PAUSE_MS);
    }
  }

  close() {
    this.clock.cancel(this.#timer);
    this.#names = [];
    this.#load += 1;
  }

  async #refresh() {
    this.#timer = null;
    this.#busy = true;
    const ids = [...this.#changed].slice(0, MOST_IDS);
    for (const id of ids) this.#changed.delete(id);
    try {
      await this.#ask({ ids });
    } catch {
      /* they are loaded with the next records, or when the connection is back */
    }
    this.#busy = false;
    this.touch([]);
  }

  /**
   * @param {{ ids?: string[], after?: string | null }} which
   * @returns {Promise<string | null>} cursor of the next page
   */
  async #ask(which) {
    const load = this.#load;
    const { metrics, next } = await this.api.runMetrics(this.#names, { ...which, means: this.#means });
    if (load === this.#load) for (const id of metrics.keys()) this.#loaded.add(id);
    this.receive(metrics);
    return next;
  }
}
