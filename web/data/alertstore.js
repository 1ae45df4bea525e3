/**
 * All alerts in this browser's memory: loaded once, updated by the socket, loaded again after each reconnect.
 */

import { beginsFiring, isOpen, isOver } from "../lib/alerts/attention.js";
import { incidentId } from "../lib/alerts/incidents.js";
import { Pushed } from "./pushed.js";

/** Alerts that are over kept in memory; the oldest are dropped first. Open alerts are never dropped. */
const OVER_KEPT = 400;

export class AlertStore {
  /** @type {Map<string, Alert>} */
  #alerts = new Map();
  /** @type {Set<(fired: Alert | null) => void>} */
  #listeners = new Set();
  #pushed = new Pushed();
  loaded = false;

  /** @param {{ alerts: () => Promise<{ items: Alert[] }> }} api */
  constructor(api) {
    this.api = api;
  }

  /**
   * Load all alerts. Open alerts missing from the response are removed. Older alerts that are over and were
   * loaded with their run are kept, because the response never includes them. What the socket brought since
   * the request began is newer than the response.
   */
  async load() {
    const asked = this.now();
    const { items } = await this.api.alerts();
    const older = items.filter((alert) => !this.#pushed.since(alert.id, asked));
    const fired = this.loaded ? older.find((alert) => this.#isNew(alert)) : undefined;
    const newer = this.all().filter((alert) => this.#pushed.since(alert.id, asked));
    const past = this.all().filter(isOver);
    this.#alerts = new Map([...past, ...older, ...newer].map((alert) => [alert.id, alert]));
    this.#bound();
    this.loaded = true;
    this.#notify(fired ?? null);
  }

  /** @param {Alert} alert its current state */
  take(alert) {
    const fired = this.#isNew(alert) ? alert : null;
    this.#pushed.add(alert.id);
    this.#alerts.delete(alert.id);
    this.#alerts.set(alert.id, alert);
    this.#bound();
    this.#notify(fired);
  }

  /** @returns {number} the moment before a request, for `learn` */
  now() {
    return this.#pushed.now();
  }

  /**
   * Add alerts that were loaded with their run. They are not new, so there is no sound.
   *
   * @param {Alert[]} alerts
   * @param {number} moment before the request: what the socket brought since then is newer
   */
  learn(alerts, moment) {
    for (const alert of alerts) if (!this.#pushed.since(alert.id, moment)) this.#alerts.set(alert.id, alert);
    this.#notify(null);
  }

  /**
   * Return whether to announce an alert: it began to fire, and no critical alert of its incident is open.
   *
   * @param {Alert} alert
   */
  #isNew(alert) {
    if (!beginsFiring(this.#alerts.get(alert.id), alert)) return false;
    const id = incidentId(alert);
    return !this.all().some(
      (other) => isOpen(other) && other.severity === "critical" && incidentId(other) === id,
    );
  }

  #bound() {
    const over = [...this.#alerts.values()].filter(isOver);
    for (const alert of over.slice(0, Math.max(0, over.length - OVER_KEPT))) {
      this.#alerts.delete(alert.id);
    }
  }

  /** @returns {Alert[]} */
  all() {
    return [...this.#alerts.values()];
  }

  /**
   * @param {string} run
   * @returns {Alert[]}
   */
  of(run) {
    return this.all().filter((alert) => alert.run_id === run);
  }

  /**
   * @param {(fired: Alert | null) => void} listener called on each change, with the alert to announce
   * @returns {() => void}
   */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** @param {Alert | null} fired */
  #notify(fired) {
    for (const listener of this.#listeners) listener(fired);
  }
}
