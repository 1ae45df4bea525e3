/** Requests of the rules page. */

import { query } from "./api.js";

const JSON_HEADERS = { "content-type": "application/json", accept: "application/json" };

export class RuleClient {
  /** @param {Pick<import("./api.js").Api, "ask">} api */
  constructor(api) {
    this.api = api;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {AbortSignal} [signal]
   */
  #send(method, path, body, signal) {
    return this.api.ask(path, {
      method,
      headers: JSON_HEADERS,
      signal,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  /**
   * @param {string} project "" for none
   * @returns {Promise<{ items: BuiltinRule[], custom: CustomRule[] }>}
   */
  rules(project) {
    return this.api.ask(`/rules${query({ project })}`);
  }

  /**
   * @param {{ projects: string[], runs: string[], tags: string[] }} globs
   * @param {AbortSignal} [signal]
   * @returns {Promise<RuleScope>}
   */
  scope({ projects, runs, tags }, signal) {
    const asked = new URLSearchParams(
      [
        ["projects", projects],
        ["runs", runs],
        ["tags", tags],
      ].flatMap(([name, globs]) => /** @type {string[]} */ (globs).map((glob) => [String(name), glob])),
    );
    return this.api.ask(`/rules/scope?${asked}`, { signal });
  }

  /**
   * @param {string} id of a built-in rule
   * @returns {Promise<{ id: string, title: string, text: string }>} text: Markdown
   */
  explanation(id) {
    return this.api.ask(`/rules/${encodeURIComponent(id)}/explanation`);
  }

  /** @returns {Promise<{ items: RulePack[] }>} */
  packs() {
    return this.api.ask("/rules/packs");
  }

  /** @returns {Promise<{ items: RuleAct[] }>} */
  changes() {
    return this.api.ask("/rules/changes");
  }

  /**
   * @param {Record<string, unknown>} fields
   * @returns {Promise<CustomRule>}
   */
  create(fields) {
    return this.#send("POST", "/rules", fields);
  }

  /**
   * @param {string} id
   * @param {Record<string, unknown>} fields
   * @returns {Promise<CustomRule>}
   */
  change(id, fields) {
    return this.#send("PATCH", `/rules/${encodeURIComponent(id)}`, fields);
  }

  /** @param {string} id */
  remove(id) {
    return this.#send("DELETE", `/rules/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} id
   * @param {{ project: string, enabled: boolean | null, severity: string | null, settings: Record<string,
   *   unknown> }} tuning
   * @returns {Promise<RuleTuning>}
   */
  tune(id, tuning) {
    return this.#send("PUT", `/rules/${encodeURIComponent(id)}/settings`, tuning);
  }

  /**
   * @param {string} id
   * @param {string} project
   */
  untune(id, project) {
    return this.#send("DELETE", `/rules/${encodeURIComponent(id)}/settings${query({ project })}`);
  }

  /**
   * @param {string} name
   * @param {boolean} enabled
   * @returns {Promise<RulePack>}
   */
  switchPack(name, enabled) {
    return this.#send("PUT", `/rules/packs/${encodeURIComponent(name)}`, { enabled });
  }

  /**
   * Return where a rule would have fired.
   *
   * @param {Record<string, unknown>} order
   * @param {AbortSignal} signal
   * @returns {Promise<TrialAnswer>}
   */
  trial(order, signal) {
    return this.#send("POST", "/backtest", order, signal);
  }
}
