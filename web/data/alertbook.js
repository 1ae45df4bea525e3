/**
 * Every alert this browser knows: asked for once, kept fresh by the socket, asked for again after each
 * reconnect.
 */

import { tolls } from "../lib/alerts/attention.js";

/** Resolved alerts kept in memory; the oldest go first. Open ones are never dropped. */
const RESOLVED_KEPT = 400;

export class AlertBook {
  /** @type {Map<string, Alert>} */
  #alerts = new Map();
  /** @type {Set<(rang: Alert | null) => void>} */
  #listeners = new Set();
  loaded = false;

  /** @param {{ alerts: () => Promise<{ items: Alert[] }> }} api */
  constructor(api) {
    this.api = api;
  }

  /**
   * Asks the server for all. Open ones that it does not name any more are forgotten; older resolved ones,
   * learned run by run, it never names.
   */
  async load() {
    const { items } = await this.api.alerts();
    const rang = this.loaded ? items.find((alert) => tolls(this.#alerts.get(alert.id), alert)) : undefined;
    const past = [...this.#alerts.values()].filter((alert) => alert.state === "resolved");
    this.#alerts = new Map([...past, ...items].map((alert) => [alert.id, alert]));
    this.#bound();
    this.loaded = true;
    this.#tell(rang ?? null);
  }

  /** @param {Alert} alert its newest state */
  take(alert) {
    const rang = tolls(this.#alerts.get(alert.id), alert) ? alert : null;
    this.#alerts.delete(alert.id);
    this.#alerts.set(alert.id, alert);
    this.#bound();
    this.#tell(rang);
  }

  /**
   * Adds alerts that were asked for by their run. Nothing of it is news, so nothing tolls.
   *
   * @param {Alert[]} alerts
   */
  learn(alerts) {
    for (const alert of alerts) this.#alerts.set(alert.id, alert);
    this.#tell(null);
  }

  #bound() {
    const resolved = [...this.#alerts.values()].filter((alert) => alert.state === "resolved");
    for (const alert of resolved.slice(0, Math.max(0, resolved.length - RESOLVED_KEPT))) {
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
   * @param {(rang: Alert | null) => void} listener told of each change, with the alert that tolls
   * @returns {() => void}
   */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** @param {Alert | null} rang */
  #tell(rang) {
    for (const listener of this.#listeners) listener(rang);
  }
}
