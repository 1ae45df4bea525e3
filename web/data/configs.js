/** The settings of all runs, loaded by the first filter that needs them. */

import { flatten } from "../lib/flatten.js";

export class Configs {
  /** @type {Map<string, Map<string, unknown>> | null} */
  #runs = null;

  /** @param {import("./api.js").Api} api */
  constructor(api) {
    this.api = api;
  }

  /**
   * Return a setting of a run.
   *
   * @param {string} id
   * @param {string} key in lower case
   */
  get(id, key) {
    return this.#runs?.get(id)?.get(key);
  }

  /** Load them, unless they are already. Return whether anything was loaded. */
  async load() {
    if (this.#runs) return false;
    this.#runs = new Map();
    try {
      const { items } = await this.api.configs();
      this.#runs = new Map(
        items.map(({ id, config }) => [
          id,
          new Map(flatten(config).map(([key]) => [key.toLowerCase(), dig(config, key)])),
        ]),
      );
      return true;
    } catch {
      this.#runs = null;
      return false;
    }
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
