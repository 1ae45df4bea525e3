/** The view of a run page, which the address holds, and everything that changes it. */

import { isShortcut } from "../../browser/shortcuts.js";
import { alertAt } from "../../lib/alerts/attention.js";
import { padded } from "../../lib/charts/metricaxis.js";
import { keyFactor, zoomCenter, zoomedAt } from "../../lib/charts/zoom.js";
import { logOrigin } from "../../lib/views/xaxis.js";
import { ALL_STEPS, followSize, readView, stepRange, writeView } from "../../lib/views/runview.js";

/** @typedef {import("../../lib/views/runview.js").View} View */

/**
 * `alerts` are those of the run, `chosen` the one being read, `step` where the cross line is. `moved`: other
 * steps are visible; `restyled`: the same steps look different; `marked`: the cross line belongs elsewhere;
 * `switched`: another alert is read.
 *
 * @typedef {{ alerts: () => Alert[], chosen: () => Alert | null, step: () => number | null, release: () =>
 *   void, moved: () => void, restyled: () => void, marked: (step: number | null) => void, switched: () =>
 *   void }} Listener
 */

export class Navigation {
  /** @type {[number, number] | null} */
  #home = null;

  /**
   * @param {import("../../data/rundata.js").RunData} data
   * @param {Listener} on
   */
  constructor(data, on) {
    this.data = data;
    this.on = on;
    this.view = readView(location.search);
  }

  /**
   * The visible steps.
   *
   * @returns {[number, number]}
   */
  range() {
    const { range, home } = stepRange(this.view, this.data.first, this.data.last, this.#home);
    this.#home = home;
    return range;
  }

  /**
   * The visible range of the x axis: of a metric and of a log axis with some space at both ends.
   *
   * @returns {[number, number]}
   */
  positions() {
    const { span } = this.view;
    const line = this.data.timeline(this.view);
    if (span && line.kind === "metric" && (span[0] > 0 || !line.log)) {
      const [a, b] = line.log ? span.map(Math.log10) : span;
      return [a, b];
    }
    const range = line.extent(...this.range());
    return line.kind === "metric" || line.log ? padded(range) : range;
  }

  /**
   * The window in steps to load; null means no limit.
   *
   * @returns {StepWindow}
   */
  window() {
    const { from, to, follow } = this.view;
    const last = this.data.last ?? this.data.row?.last_step ?? 0;
    const logFrom = logOrigin(this.view, this.data.first);
    return follow === null ? { from, to, logFrom } : { from: Math.max(0, last - follow), to: null, logFrom };
  }

  /**
   * The visible steps if they are not all of them, for files and tables.
   *
   * @returns {StepWindow}
   */
  records() {
    if (this.view.from === null && this.view.follow === null) return { from: null, to: null };
    const [from, to] = this.range();
    return { from: Math.max(0, Math.floor(from)), to: Math.ceil(to) };
  }

  /** How many steps `follow` shows. */
  followed() {
    const [a, b] = this.range();
    return followSize(this.view.from === null ? (b - a) / 8 : b - a);
  }

  /**
   * Redraw the same steps differently.
   *
   * @param {Partial<View>} change
   */
  set(change) {
    this.view = { ...this.view, ...change };
    this.#address();
    this.on.restyled();
  }

  /**
   * A window chosen on a chart, in units of its x axis.
   *
   * @param {[number, number] | null} range null: the whole run
   */
  chart(range) {
    if (!range) return this.#move(ALL_STEPS);
    const line = this.data.timeline(this.view);
    const [a, b] = line.extent(this.data.first ?? 0, this.data.last ?? 0);
    const natural = /** @type {[number, number]} */ (line.log ? range.map((x) => 10 ** x) : range);
    if (range[0] < a && range[1] > b) this.#move(ALL_STEPS);
    else this.zoom(line.steps(range), line.kind === "metric" ? natural : null);
  }

  /**
   * @param {[number, number]} range steps
   * @param {View["span"]} [span] the visible part of a metric as x axis
   */
  zoom([start, end], span = null) {
    const from = Math.max(start, (this.data.first ?? 0) - 1);
    const to = Number.isFinite(end) ? end : (this.data.last ?? 0) + 1;
    this.#move({ from, to: Math.max(to, from + 2), follow: null, span });
  }

  /** Show all steps and all values. */
  reset() {
    this.#move({ ...ALL_STEPS, limits: {} });
  }

  /** Follow the newest steps, as many as are visible now; again: the whole run. */
  follow() {
    this.#move({ ...ALL_STEPS, follow: this.view.follow === null ? this.followed() : null });
  }

  /**
   * Move the cross line to a step, and the window if the step is not visible.
   *
   * @param {number} at
   */
  go(at) {
    const [a, b] = this.range();
    this.on.marked(at);
    this.#move({ at, ...(at < a || at > b ? ALL_STEPS : {}) });
  }

  /**
   * Zoom to where an alert began and fired, with as much before it.
   *
   * @param {Alert} alert
   */
  around(alert) {
    const onset = alert.onset_step ?? 0;
    const fired = Math.max(alert.fired_step ?? onset, onset);
    const room = Math.max(40, (fired - onset) * 2);
    this.view = { ...this.view, alert: alert.id, at: onset };
    this.zoom([Math.max(this.data.first ?? 0, onset - room), Math.max(fired, onset) + room]);
    this.go(onset);
  }

  /**
   * Read an alert.
   *
   * @param {string} id
   * @param {number | null} onset
   */
  choose(id, onset) {
    this.view = { ...this.view, alert: id };
    if (onset === null) this.#move({});
    else this.go(onset);
    this.on.switched();
  }

  /**
   * The reader pinned the cross line or released it: read the alert that was active there.
   *
   * @param {number | null} step
   */
  pinned(step) {
    const before = this.on.chosen()?.id ?? null;
    const under = step === null ? null : alertAt(this.on.alerts(), step, before, this.data.last ?? 0);
    this.view = { ...this.view, at: step, ...(under ? { alert: under.id } : {}) };
    this.#address();
    if (!under || under.id === before) return;
    this.on.switched();
    this.on.restyled();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!isShortcut(event)) return;
    const factor = keyFactor(event.key);
    if (factor !== null) this.#zoomBy(factor);
    else if (event.key.toLowerCase() === "r") this.reset();
    else if (event.key.toLowerCase() === "f") this.follow();
    else if (event.key === "Escape" && this.view.full !== null) this.set({ full: null });
    else if (event.key === "Escape") this.on.release();
  }

  /** @param {number} factor by which the window grows, around the cross line */
  #zoomBy(factor) {
    const range = this.positions();
    const step = this.on.step();
    const cross = step === null ? null : this.data.timeline(this.view).toX(step);
    this.chart(zoomedAt(range, zoomCenter(range, cross), factor));
  }

  /** @param {Partial<View>} change */
  #move(change) {
    this.view = { ...this.view, ...change };
    this.#address();
    this.on.moved();
  }

  #address() {
    history.replaceState(null, "", location.pathname + writeView(this.view));
  }
}
