/** The settings of all runs, loaded when a filter or a column needs them, and again for new runs. */

import { flatten } from "../lib/flatten.js";

/** Keys that are suggested. */
const MOST_KEYS = 5_000;
/** New runs are looked up at most this often. */
const PAUSE_MS = 5_000;

export class Configs {
  /** @type {Map<string, Map<string, unknown>> | null} by run; keys in lower case */
  #runs = null;
  /** @type {Map<string, string>} keys as they were written, by key in lower case */
  #keys = new Map();
  /** @type {Set<string>} runs that existed at the last request */
  #asked = new Set();
  #at = -Infinity;

  /**
   * @param {Pick<import("./api.js").Api, "configs">} api
   * @param {() => number} [now] monotonic, ms
   */
  constructor(api, now = () => performance.now()) {
    this.api = api;
    this.now = now;
  }

  /**
   * Return a setting of a run.
   *
   * @param {string} id
   * @param {string} key
   */
  get(id, key) {
    return this.#runs?.get(id)?.get(key.toLowerCase());
  }

  /**
   * Return whether the settings of a run are loaded.
   *
   * @param {string} id
   */
  isLoaded(id) {
    return this.#asked.has(id) || (this.#runs?.has(id) ?? false);
  }

  /** Return the keys of all settings, sorted. */
  get keys() {
    return [...this.#keys.values()].sort((a, b) => (a < b ? -1 : 1));
  }

  /**
   * Load them, unless they are already there for these runs. Return whether anything was loaded.
   *
   * @param {string[]} [ids]
   */
  async load(ids = []) {
    const lacking = ids.some((id) => !this.#asked.has(id)) && this.now() - this.#at > PAUSE_MS;
    if (this.#runs && !lacking) return false;
    const before = this.#runs;
    this.#runs ??= new Map();
    this.#at = this.now();
    try {
      const { items } = await this.api.configs();
      for (const id of ids) this.#asked.add(id);
      this.#runs = new Map(items.map(({ id, config }) => [id, this.#flat(config)]));
      return true;
    } catch {
      this.#runs = before;
      return false;
    }
  }

  /** @param {unknown} config */
  #flat(config) {
    return new Map(
      flatten(config).map(([key]) => {
        const low = key.toLowerCase();
        if (!this.#keys.has(low) && this.#keys.size < MOST_KEYS) this.#keys.set(low, key);
        return [low, dig(config, key)];
      }),
    );
  }
}

/**
 * Return a value of a nested config by its flat key.
 *
 * @param {unknown} config
 * @param {string} key
 * @returns {unknown}
 */
function dig(config, key) {
  if (!config || typeof config !== "object") return undefined;
  if (key in config) return /** @type {Record<string, unknown>} */ (config)[key];
  const cut = Object.keys(config).find((each) => key.startsWith(`${each}.`));
  return cut === undefined
    ? undefined
    : dig(/** @type {Record<string, unknown>} */ (config)[cut], key.slice(cut.length + 1));
}
