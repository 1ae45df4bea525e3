/** Series and details of many runs: what is wanted of several runs at once is one request. */

import { unpack } from "../lib/exact.js";
import { ApiError } from "./http.js";

/** As many runs as the server streams in one request. */
const MOST_RUNS = 1_000;
/** Requests at once. What is wanted meanwhile is collected for the next one. */
const AT_ONCE = 2;

/**
 * @typedef {StepWindow & { buckets?: number }} Window
 * @typedef {StepWindow & { id: string, signal?: AbortSignal, done: (answer: SeriesAnswer) => void, failed:
 *   (error: Error) => void }} Ask one run
 * @typedef {{ what: { names: string[], buckets?: number, details: boolean }, asks: Ask[] }} Batch
 */

export class RunStream {
  /** @type {Map<string, Batch>} what waits, by names, buckets and details */
  #waiting = new Map();
  #running = 0;
  #due = false;

  /**
   * @param {Pick<import("./api.js").Api, "compare">} api
   * @param {(line: CompareLine) => void} details called with each run's details, before its series
   * @param {() => void} [complete] called when all requested runs have arrived or failed
   */
  constructor(api, details, complete = () => {}) {
    this.api = api;
    this.details = details;
    this.complete = complete;
  }

  /** Whether a response has not arrived completely. */
  get busy() {
    return this.#running > 0 || this.#waiting.size > 0;
  }

  /**
   * Return the series of a run, and its details with those of the whole run.
   *
   * @param {string} id
   * @param {string[]} names
   * @param {Window} window
   * @param {AbortSignal} [signal]
   * @returns {Promise<SeriesAnswer>}
   */
  series(id, names, { from, to, buckets, logFrom }, signal) {
    return this.#ask({ names, buckets, details: from === null }, { id, from, to, logFrom, signal });
  }

  /**
   * Load only the details of a run; the answer has no series.
   *
   * @param {string} id
   */
  refresh(id) {
    return this.#ask({ names: [], details: true }, { id, from: null, to: null });
  }

  /**
   * @param {Batch["what"]} what
   * @param {Omit<Ask, "done" | "failed">} run
   * @returns {Promise<SeriesAnswer>}
   */
  #ask(what, run) {
    return new Promise((done, failed) => {
      const key = JSON.stringify(what);
      const batch = this.#waiting.get(key) ?? { what, asks: [] };
      batch.asks.push({ ...run, done, failed });
      this.#waiting.set(key, batch);
      this.#soon();
    });
  }

  /** Start after the caller has asked for all runs. */
  #soon() {
    if (this.#due || this.#running >= AT_ONCE) return;
    this.#due = true;
    queueMicrotask(() => {
      this.#due = false;
      this.#start();
    });
  }

  #start() {
    for (const [key, batch] of this.#waiting) {
      if (this.#running >= AT_ONCE) return;
      const some = batch.asks.splice(0, MOST_RUNS);
      if (!batch.asks.length) this.#waiting.delete(key);
      this.#running++;
      void this.#request(batch.what, some).finally(() => {
        this.#running--;
        this.#start();
        if (!this.busy) this.complete();
      });
    }
  }

  /**
   * @param {Batch["what"]} what
   * @param {Ask[]} asks
   */
  async #request(what, asks) {
    const asking = new AbortController();
    let wanted = asks.length;
    for (const { signal } of asks) {
      signal?.addEventListener("abort", () => --wanted || asking.abort(), { once: true });
    }
    const runs = asks.map(({ id, from, to, logFrom = null }) =>
      logFrom === null ? { id, from, to } : { id, from, to, log_from: logFrom },
    );
    let at = 0;
    try {
      for await (const line of this.api.compare({ ...what, runs }, asking.signal)) {
        this.#receive(asks[at++], line);
      }
      if (at < asks.length) throw new ApiError(0, { detail: "The server's response is incomplete." });
    } catch (error) {
      for (const ask of asks.slice(at)) ask.failed(/** @type {Error} */ (error));
    }
  }

  /**
   * @param {Ask} ask
   * @param {CompareLine} line
   */
  #receive(ask, line) {
    if (line.names) this.details(line);
    if (line.error) ask.failed(new ApiError(line.error.status, line.error));
    else ask.done(seriesOf(line));
  }
}

/**
 * Return the series of a line as the response of a single run has them: each layer with its positions.
 *
 * @param {CompareLine} line
 * @returns {SeriesAnswer}
 */
export function seriesOf({ id, cursor, first_step, last_step, grids = [], series = {} }) {
  const placed = grids.map((grid) => ({
    ...grid,
    x: unpack(grid.x),
    t: unpack(grid.t),
    x1: grid.x1 && unpack(grid.x1),
    n: grid.n && unpack(grid.n),
  }));
  return {
    run: id,
    cursor: cursor ?? -1,
    first_step: first_step ?? null,
    last_step: last_step ?? null,
    series: Object.fromEntries(
      Object.entries(series).map(([name, layers]) => [
        name,
        layers.map(({ grid, ...values }) => ({ ...placed[grid], ...values })),
      ]),
    ),
  };
}
