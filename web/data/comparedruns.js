/** The runs of a comparison: details, alerts and series of each, loaded together and followed live. */

import { bucketsFor, tokenSeries } from "../lib/charts/compare.js";
import { VITAL_SERIES } from "../lib/charts/vitalsigns.js";
import { MOST_LISTED } from "../lib/views/compareview.js";
import { logOrigin, xMetric } from "../lib/views/xaxis.js";
import { ApiError } from "./http.js";
import { Feed } from "./feed.js";
import { RunStream } from "./runstream.js";

const ENDED = new Set(["finished", "failed"]);

/**
 * @typedef {import("../lib/views/compareview.js").CompareView} CompareView
 * @typedef {import("../lib/charts/timeaxis.js").Timeline} Timeline
 * @typedef {{ feed: Feed, fine: Feed | null, finest: string, detail: ComparedRun | null, gone: boolean,
 *   asked: string }} Member fine: the series of the window; finest, asked: what was requested last
 * @typedef {{ view: () => CompareView, line: (id: string) => Timeline | null, range: () => [number,
 *   number], reset: (id: string) => void,
 *   changed: () => void, known: () => void, complete: () => void, failed: (error: Error) => void }} Listener
 *   line: the x axis of a run; reset: its coarse series changed; changed: something to draw; known: details;
 *   complete: nothing is loading anymore
 */

export class ComparedRuns {
  /** @type {Map<string, Member>} */
  members = new Map();

  /**
   * @param {Pick<App, "api" | "live">} app
   * @param {Listener} listener
   */
  constructor({ api, live }, listener) {
    this.live = live;
    this.listener = listener;
    this.stream = new RunStream(api, (line) => this.#detail(line), listener.complete);
  }

  /** Load what the view shows now: of too many runs only the details. */
  look() {
    const { runs } = this.listener.view();
    const shown = new Set(runs.map((run) => run.id));
    for (const [id, member] of this.members) {
      if (!shown.has(id)) {
        member.feed.close();
        member.fine?.close();
        this.members.delete(id);
      }
    }
    const added = runs.filter(({ id }) => !this.members.has(id));
    for (const { id } of added) this.#join(id);
    if (runs.length > MOST_LISTED) for (const { id } of added) void this.#refresh(id);
    else for (const id of this.members.keys()) this.#ask(id);
  }

  /** @param {string} id */
  #join(id) {
    const feed = this.#feed(id, () => {
      this.listener.reset(id);
      this.#finer(id);
    });
    this.members.set(id, { feed, fine: null, finest: "", detail: null, gone: false, asked: "" });
  }

  /**
   * Return a feed of a run. Runs that have ended are not followed; a refresh shows whether one continues.
   *
   * @param {string} id
   * @param {() => void} changed
   */
  #feed(id, changed) {
    const following = {
      subscribe: (/** @type {any[]} */ ...what) =>
        ENDED.has(this.members.get(id)?.detail?.state ?? "")
          ? () => {}
          : this.live.subscribe(.../** @type {Parameters<App["live"]["subscribe"]>} */ (what)),
    };
    return new Feed(this.stream, following, id, {
      changed: (_, grew) => {
        changed();
        if (grew) this.listener.changed();
      },
      failed: (error) => this.#failed(id, error),
    });
  }

  /** @param {CompareLine} line */
  #detail(line) {
    const member = this.members.get(line.id);
    if (!member) return;
    member.detail = /** @type {ComparedRun} */ (line);
    member.gone = false;
    this.listener.known();
  }

  /**
   * @param {string} id
   * @param {Error} error
   */
  #failed(id, error) {
    const member = this.members.get(id);
    if (!member || error.name === "AbortError") return;
    if (error instanceof ApiError && error.status === 404) {
      member.gone = true;
      return this.listener.known();
    }
    this.listener.failed(error);
  }

  /**
   * Load the series of a run, and those of the window.
   *
   * @param {string} id
   */
  #ask(id) {
    this.#finer(id);
    void this.#series(id);
  }

  /**
   * Request only if series or buckets changed.
   *
   * @param {string} id
   */
  async #series(id) {
    const member = this.members.get(id);
    if (!member || member.gone) return;
    const { metric, series, runs } = this.listener.view();
    const names = [...new Set([...VITAL_SERIES, metric, ...series, ...this.#along(id)])];
    const buckets = bucketsFor(runs.length);
    const logFrom = this.#logFrom(id);
    const asked = JSON.stringify([names, buckets, logFrom]);
    if (asked === member.asked) return;
    member.asked = asked;
    await member.feed.load(names, { from: null, to: null, buckets, logFrom });
    if (this.listener.view().x === "tokens") await this.#series(id);
  }

  /**
   * Return the name of the series that is the x axis, or null if it is none: a metric, or the run's series
   * that counts tokens.
   *
   * @param {string} id
   */
  along(id) {
    const { x } = this.listener.view();
    return x === "tokens" ? tokenSeries(this.members.get(id)?.detail?.names ?? []) : xMetric(x);
  }

  /** @param {string} id */
  #along(id) {
    const name = this.along(id);
    return name === null ? [] : [name];
  }

  /**
   * Return the layers of the series that is the x axis, the finest first.
   *
   * @param {string} id
   */
  axis(id) {
    const { feed, fine } = this.members.get(id) ?? {};
    const name = this.along(id);
    return name === null ? [] : [fine, feed].flatMap((each) => (each?.ready ? [each.set.get(name)] : []));
  }

  /**
   * Load finer buckets for the window. The coarse ones stay, because they map steps to the common axis.
   *
   * @param {string} id
   */
  #finer(id) {
    const member = this.members.get(id);
    const { x, logX, from, to, series, runs } = this.listener.view();
    if (!member || member.gone) return;
    const line = from === null || to === null ? null : this.listener.line(id);
    const key = JSON.stringify([x, logX, from, to, series]);
    if (!line) {
      if (from === null) coarse(member);
      return;
    }
    if (key === member.finest) return;
    coarse(member);
    member.finest = key;
    const [first, last] = line.steps(this.listener.range());
    const window = { from: Math.floor(first), to: Math.ceil(last) };
    if (!Number.isFinite(window.from) && !Number.isFinite(window.to)) return; // the whole run is in sight
    member.fine = this.#feed(id, () => this.listener.reset(id));
    void member.fine.load([...new Set([...VITAL_SERIES, ...series, ...this.#along(id)])], {
      from: Number.isFinite(window.from) ? window.from : Math.min(0, member.feed.set.first ?? 0),
      to: Number.isFinite(window.to) ? window.to : Number.MAX_SAFE_INTEGER,
      buckets: bucketsFor(runs.length),
      logFrom: this.#logFrom(id),
    });
  }

  /** @param {string} id */
  #logFrom(id) {
    return logOrigin(this.listener.view(), this.members.get(id)?.feed.set.first ?? null);
  }

  /**
   * Return the layers of a series at the finest resolution loaded.
   *
   * @param {string} id
   * @param {string} name
   */
  layers(id, name) {
    const member = this.members.get(id);
    return (member?.fine?.ready ? member.fine : member?.feed)?.set.get(name) ?? [];
  }

  /** Load the details again, and the series of ended runs that have new records. */
  async refresh() {
    if (this.stream.busy) return;
    await Promise.all([...this.members.keys()].map((id) => this.#refresh(id)));
  }

  /** @param {string} id */
  async #refresh(id) {
    const member = this.members.get(id);
    if (!member) return;
    const before = member.detail?.state ?? "";
    try {
      const { cursor } = await this.stream.refresh(id);
      if (ENDED.has(before) && member.feed.ready && cursor > (member.feed.set.cursor ?? -1)) {
        for (const feed of [member.feed, member.fine]) void feed?.reload();
      }
    } catch (error) {
      this.#failed(id, /** @type {Error} */ (error));
    }
  }

  reload() {
    for (const { feed, fine } of this.members.values()) {
      void feed.reload();
      void fine?.reload();
    }
  }

  close() {
    for (const { feed, fine } of this.members.values()) {
      feed.close();
      fine?.close();
    }
    this.members.clear();
  }
}

/** @param {Member} member */
function coarse(member) {
  member.fine?.close();
  member.fine = null;
  member.finest = "";
}
