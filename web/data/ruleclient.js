/** Requests of the rules page. */

import { query } from "./http.js";

export class RuleClient {
  /** @param {Pick<import("./http.js").Http, "ask" | "send">} api */
  constructor(api) {
    this.api = api;
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
    return this.api.ask(`/rules/scope${query({ projects, runs, tags })}`, { signal });
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
    return this.api.send("POST", "/rules", fields);
  }

  /**
   * @param {string} id
   * @param {Record<string, unknown>} fields
   * @returns {Promise<CustomRule>}
   */
  change(id, fields) {
    return this.api.send("PATCH", `/rules/${encodeURIComponent(id)}`, fields);
  }

  /** @param {string} id */
  remove(id) {
    return this.api.send("DELETE", `/rules/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} id
   * @param {{ project: string, enabled: boolean | null, severity: string | null, settings: Record<string,
   *   unknown> }} tuning
   * @returns {Promise<RuleTuning>}
   */
  tune(id, tuning) {
    return this.api.send("PUT", `/rules/${encodeURIComponent(id)}/settings`, tuning);
  }

  /**
   * @param {string} id
   * @param {string} project
   */
  untune(id, project) {
    return this.api.send("DELETE", `/rules/${encodeURIComponent(id)}/settings${query({ project })}`);
  }

  /**
   * @param {string} name
   * @param {boolean} enabled
   * @returns {Promise<RulePack>}
   */
  switchPack(name, enabled) {
    return this.api.send("PUT", `/rules/packs/${encodeURIComponent(name)}`, { enabled });
  }

  /**
   * Return where a rule would have fired.
   *
   * @param {Record<string, unknown>} order
   * @param {AbortSignal} signal
   * @returns {Promise<TrialAnswer>}
   */
  trial(order, signal) {
    return this.api.send("POST", "/backtest", order, { signal });
  }
}
