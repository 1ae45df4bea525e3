/** The series of one run: loaded once, extended by the socket, loaded again after each reconnect. */

import { SeriesSet } from "../lib/charts/series.js";

/**
 * @typedef {{ series: (id: string, names: string[], window: StepWindow & { buckets?: number }, signal?:
 *   AbortSignal) => Promise<SeriesAnswer> }} SeriesSource
 * @typedef {{ subscribe: (view: import("./live.js").View, handlers: import("./live.js").Handlers) => () =>
 *   void }} LiveSource
 * @typedef {{ changed: (delta: RunDelta | null, grew: boolean) => void, failed: (error: Error) => void }}
 *   Listener
 */

export class Feed {
  /** @type {(() => void) | null} */
  #unsubscribe = null;
  /** @type {AbortController | null} */
  #asking = null;

  /**
   * @param {SeriesSource} api
   * @param {LiveSource} live
   * @param {string} run
   * @param {Listener} listener
   */
  constructor(api, live, run, listener) {
    this.api = api;
    this.live = live;
    this.run = run;
    this.listener = listener;
    this.set = new SeriesSet();
    this.ready = false;
    /** @type {string[]} */
    this.names = [];
    /** @type {string[] | null} those of the newest answer */
    this.answered = null;
    /** @type {StepWindow & { buckets?: number }} */
    this.window = { from: null, to: null };
  }

  /**
   * Show `names` over `window` from now on; the newest call wins.
   *
   * @param {string[]} names
   * @param {StepWindow & { buckets?: number }} window
   */
  async load(names, window) {
    this.names = names;
    this.window = window;
    this.#asking?.abort();
    const asking = new AbortController();
    this.#asking = asking;
    try {
      const answer = await this.api.series(this.run, names, window, asking.signal);
      if (asking.signal.aborted) return;
      this.answered = names;
      this.#take(answer);
    } catch (error) {
      if (!asking.signal.aborted) this.listener.failed(/** @type {Error} */ (error));
    }
  }

  /** Whether the series that are wanted now have arrived. */
  get complete() {
    return this.answered === this.names;
  }

  reload() {
    return this.load(this.names, this.window);
  }

  close() {
    this.#asking?.abort();
    this.#unsubscribe?.();
    this.#unsubscribe = null;
  }

  /** @param {SeriesAnswer} answer */
  #take(answer) {
    this.set = new SeriesSet();
    this.set.bounds = this.window;
    this.set.take(answer);
    this.ready = true;
    this.#unsubscribe?.();
    this.#unsubscribe = this.live.subscribe(
      { view: "run", run: this.run, names: this.names },
      {
        cursor: () => this.set.cursor,
        message: (frame) => this.#receive(frame),
        reconnected: () => void this.reload(),
      },
    );
    this.listener.changed(null, true);
  }

  /** @param {RunDelta | { type: "resync" }} frame */
  #receive(frame) {
    if (frame.type === "resync") return void this.reload();
    const grew = this.set.add(frame);
    this.listener.changed(frame, grew);
  }
}
