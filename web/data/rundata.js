/** The data of a run page: row, details, events, and the vital signs of the run and of the window. */

import { drawnBeside } from "../lib/charts/optimizers.js";
import { logarithmic } from "../lib/charts/logaxis.js";
import { metricAxis } from "../lib/charts/metricaxis.js";
import { ranksOf } from "../lib/charts/ranks.js";
import { moments, STEPS, timeline } from "../lib/charts/timeaxis.js";
import { VITAL_SERIES } from "../lib/charts/vitalsigns.js";
import { xMetric } from "../lib/views/xaxis.js";
import { Feed } from "./feed.js";

/** The most events kept in memory, newest first, for flags and the list. */
const EVENTS_KEPT = 1_000;
/** Shortest pause between two requests of the details for new series: a training may add them one by one. */
const NEW_SERIES_MS = 1_000;
const NO_LAYERS = /** @type {Layer[]} */ ([]);

/** @typedef {import("../lib/charts/timeaxis.js").Timeline} Timeline */

/**
 * Callbacks for a new row, new details (loaded with the events), changed series, and failed requests.
 * `complete`: a whole response arrived, not only new records; `grew`: visible series changed; `finer`: the
 * window that was requested arrived.
 *
 * @typedef {{ row: (row: RunRow) => void, details: (run: RunDetail) => void,
 *   series: (change: { complete: boolean, grew: boolean, finer?: boolean }) => void,
 *   failed: (error: Error) => void }} Listeners
 */

export class RunData {
  /** @type {RunDetail | null} */
  run = null;
  /** @type {RunRow | null} */
  row = null;
  /** @type {RunEvent[]} oldest first */
  events = [];
  /** @type {Feed | null} the series of the window, finer than those of the whole run */
  #fine = null;
  /** @type {{ key: string, line: Timeline } | null} */
  #axis = null;
  /** When the details were last requested because the run has reported a new series, ms. */
  #askedAt = 0;
  /** @type {Set<Partial<RunRow>>} what the socket brought since each request of the details */
  #newer = new Set();
  #closed = false;

  /**
   * @param {Pick<App, "api" | "live">} source
   * @param {string} id
   * @param {Listeners} on
   * @param {string[]} names of the series
   */
  constructor({ api, live }, id, on, names = VITAL_SERIES) {
    this.names = [...new Set([...names, ...VITAL_SERIES])];
    this.api = api;
    this.live = live;
    this.id = id;
    this.on = on;
    this.whole = new Feed(api, live, id, {
      changed: (delta, grew) => this.#received(delta, grew),
      failed: on.failed,
    });
  }

  /** Whether the series of the whole run are loaded. */
  get ready() {
    return this.whole.ready;
  }

  /** Whether the details and the series of all optimizers, which they name, are loaded. */
  get settled() {
    return this.run !== null && this.whole.complete;
  }

  /** Whether the series of a window are shown. */
  get zoomed() {
    return this.#fine !== null;
  }

  get first() {
    return this.whole.set.first;
  }

  get last() {
    return this.whole.set.last;
  }

  /**
   * Load the whole run.
   *
   * @param {number} buckets
   * @param {number | null} [logFrom] as in StepWindow
   */
  load(buckets, logFrom = null) {
    void this.whole.load(this.names, { from: null, to: null, buckets, logFrom });
  }

  /**
   * Load a window alone, without the series of the whole run.
   *
   * @param {StepWindow} window
   * @param {number} buckets
   */
  only(window, buckets) {
    return this.whole.load(this.names, { ...window, buckets });
  }

  /** Load everything again. */
  reload() {
    void this.whole.reload();
    void this.refresh();
  }

  /** Load what the socket doesn't carry: details and events. Rows that it brings meanwhile are newer. */
  async refresh() {
    const newer = /** @type {Partial<RunRow>} */ ({});
    this.#newer.add(newer);
    try {
      const [run, { items }] = await Promise.all([this.api.run(this.id), this.api.events(this.id)]);
      if (this.#closed) return;
      this.run = { ...run, ...newer };
      this.events = items.filter(isListed).slice(-EVENTS_KEPT);
      this.row = this.run;
      this.#widen(this.run);
      this.on.row(this.row);
      this.on.details(this.run);
    } catch (error) {
      if (!this.#closed) this.on.failed(/** @type {Error} */ (error));
    } finally {
      this.#newer.delete(newer);
    }
  }

  /**
   * Load also the vital signs of other optimizers, which the details name.
   *
   * @param {RunDetail} run
   */
  #widen(run) {
    this.also(drawnBeside(run.series.map(({ name }) => name)));
  }

  /**
   * Apply the server's response to a change made here.
   *
   * @param {RunRow} row
   */
  edited(row) {
    this.#apply(row);
    void this.refresh();
  }

  /**
   * Load the series of a window, and those of the whole run again if the axis became logarithmic or linear.
   * Until they arrive, `layers` returns the coarser ones of the whole run.
   *
   * @param {StepWindow} window
   * @param {number} buckets
   */
  look(window, buckets) {
    this.#axis = null;
    const { logFrom = null } = window;
    if (this.whole.names.length && logFrom !== (this.whole.window.logFrom ?? null)) {
      this.load(this.whole.window.buckets ?? buckets, logFrom);
    }
    if (window.from === null || this.#fine?.ready) {
      this.#fine?.close();
      this.#fine = null;
    }
    if (window.from === null) return;
    this.#fine ??= new Feed(this.api, this.live, this.id, {
      changed: (delta, grew) => {
        this.#axis = null;
        this.on.series({ complete: false, grew, finer: delta === null });
      },
      failed: this.on.failed,
    });
    void this.#fine.load(this.names, { ...window, buckets });
  }

  /**
   * @param {string} name
   * @returns {Layer[]}
   */
  layers(name) {
    const set = this.#fine?.ready ? this.#fine.set : this.whole.set;
    return set.get(name) ?? NO_LAYERS;
  }

  /**
   * The layers of the whole run, also while a window is shown.
   *
   * @param {string} name
   */
  layersOfRun(name) {
    return this.whole.set.get(name);
  }

  /** Ranks of the run, ascending; those that reported, once the details or the series are loaded. */
  ranks() {
    const connected = (this.run?.writers ?? []).filter(({ records }) => records > 0);
    const found = ranksOf([...this.whole.set.layers.values()].flat());
    return [...new Set([...found, ...connected.map(({ rank }) => rank)])].sort((a, b) => a - b);
  }

  /** Names of all series of the run; null if not loaded yet. */
  reported() {
    if (!this.run || !(this.ready || this.run.series.length)) return null;
    const live = [...this.whole.set.layers]
      .filter(([, layers]) => layers.some((layer) => layer.x.length))
      .map(([name]) => name);
    return new Set([...this.run.series.map((each) => each.name), ...live]);
  }

  /** First steps of all attempts but the first. */
  restarts() {
    return (this.run?.attempts_list ?? [])
      .filter((each) => each.attempt > 1 && each.first_step !== null)
      .map((each) => Number(each.first_step));
  }

  /**
   * Return the x axis, from the records in memory.
   *
   * @param {import("../lib/views/xaxis.js").XAxis} axis
   * @returns {Timeline}
   */
  timeline({ x, logX }) {
    const key = `${x} ${logX}`;
    if (this.#axis?.key !== key) {
      const line = this.#line(x);
      this.#axis = { key, line: logX ? logarithmic(line) : line };
    }
    return this.#axis.line;
  }

  /**
   * @param {import("../lib/views/xaxis.js").XKind} x
   * @returns {Timeline}
   */
  #line(x) {
    const feeds = [this.whole, this.#fine].filter((feed) => feed !== null).filter((feed) => feed.ready);
    const metric = xMetric(x);
    if (metric !== null) {
      return metricAxis(metric, feeds.map((feed) => feed.set.get(metric)).reverse());
    }
    return x === "relative" || x === "wall" ? timeline(x, moments(feeds.map(longest))) : STEPS;
  }

  /**
   * Load also these series.
   *
   * @param {string[]} names
   */
  also(names) {
    const added = names.filter((name) => !this.names.includes(name));
    if (!added.length) return;
    this.names = [...this.names, ...added];
    for (const feed of [this.whole, this.#fine]) {
      if (feed?.names.length) void feed.load(this.names, feed.window);
    }
  }

  close() {
    this.#closed = true;
    this.whole.close();
    this.#fine?.close();
  }

  /** @param {RunRow} row */
  #apply(row) {
    for (const each of this.#newer) Object.assign(each, row);
    this.row = { .../** @type {RunRow} */ (this.row), ...row };
    this.on.row(this.row);
  }

  /**
   * Return whether the run has reported series that the details lack, at most every NEW_SERIES_MS. The socket
   * carries only series that the page knows.
   *
   * @param {number} reported
   */
  #hasNew(reported) {
    const now = Date.now();
    if (!this.run || reported <= this.run.series.length || now - this.#askedAt < NEW_SERIES_MS) return false;
    this.#askedAt = now;
    return true;
  }

  /**
   * @param {RunDelta | null} delta null if the response was complete
   * @param {boolean} grew
   */
  #received(delta, grew) {
    this.#axis = null;
    if (delta?.row) {
      const edited = this.row && (delta.row.edited_ms ?? null) !== (this.row.edited_ms ?? null);
      if (edited || this.#hasNew(delta.reported ?? 0)) void this.refresh();
      this.#apply(delta.row);
    }
    const known = new Set(this.events.map((event) => event.id));
    const added = (delta?.events ?? []).filter((event) => isListed(event) && !known.has(event.id));
    if (added.length) this.events = [...this.events, ...added].slice(-EVENTS_KEPT);
    this.on.series({ complete: !delta, grew: grew && !this.#fine?.ready });
  }
}

/** Kinds that other parts of the page show: the heat map and the media tab. */
const ELSEWHERE = new Set(["layers", "layer-names", "media", "media-content", "console"]);

/** @param {RunEvent} event */
const isListed = (event) => !ELSEWHERE.has(event.kind);

/**
 * Return the layers of the first vital sign that has records.
 *
 * @param {Feed} feed
 * @returns {Layer[]}
 */
const longest = (feed) =>
  VITAL_SERIES.map((name) => feed.set.get(name) ?? NO_LAYERS).find((layers) =>
    layers.some((layer) => layer.x.length),
  ) ?? NO_LAYERS;
