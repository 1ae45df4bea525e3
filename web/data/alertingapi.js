/** Requests of the alerting pages. */

import { query } from "./http.js";

/** @typedef {import("../lib/alerts/routesdoc.js").Routing} Routing */
/** @typedef {{ matchers: string[], starts_ms: number | null, ends_ms: number, reason: string }} NewSilence */
/**
 * @typedef {{ name?: string, kind?: string, enabled?: boolean, limit_per_hour?: number, config?:
 *   Record<string, string> }} ChannelChange
 */

export class AlertingApi {
  /** @param {Pick<import("./http.js").Http, "ask" | "send">} api */
  constructor(api) {
    this.api = api;
  }

  /** @returns {Promise<{ items: AlertMarks[], silences: Silence[] }>} */
  marks() {
    return this.api.ask("/alerts/marks");
  }

  /**
   * @param {{ state?: string, run?: string, limit?: number }} [filter]
   * @returns {Promise<{ items: Alert[] }>}
   */
  alerts(filter = {}) {
    return this.api.ask(`/alerts${query(filter)}`);
  }

  /**
   * @param {string} id
   * @returns {Promise<Alert>}
   */
  alert(id) {
    return this.api.ask(`/alerts/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} id
   * @returns {Promise<{ items: LifeLine[], marks: AlertMarks }>}
   */
  history(id) {
    return this.api.ask(`/alerts/${encodeURIComponent(id)}/history`);
  }

  /**
   * @param {string} id of an incident
   * @returns {Promise<IncidentDetail>}
   */
  incident(id) {
    return this.api.ask(`/incidents/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} id of an incident
   * @returns {Promise<{ items: LifeLine[] }>}
   */
  incidentHistory(id) {
    return this.api.ask(`/incidents/${encodeURIComponent(id)}/history`);
  }

  /**
   * @param {string} id of an incident
   * @returns {Promise<SimilarIncidents>}
   */
  similarIncidents(id) {
    return this.api.ask(`/incidents/${encodeURIComponent(id)}/similar`);
  }

  /**
   * @param {string} id of an incident
   * @returns {Promise<RunChanges>}
   */
  incidentChanges(id) {
    return this.api.ask(`/incidents/${encodeURIComponent(id)}/changes`);
  }

  /**
   * @param {string} id of a run
   * @param {number} attempt with which its newest is compared
   * @returns {Promise<RunChanges>}
   */
  attemptChanges(id, attempt) {
    return this.api.ask(`/runs/${encodeURIComponent(id)}/changes${query({ attempt })}`);
  }

  /**
   * @param {string} id of an incident
   * @returns {Promise<Remedies>}
   */
  incidentRemedies(id) {
    return this.api.ask(`/incidents/${encodeURIComponent(id)}/remedies`);
  }

  /**
   * @param {string} project
   * @returns {Promise<{ items: LedgerLine[] }>}
   */
  projectRemedies(project) {
    return this.api.ask(`/projects/${encodeURIComponent(project)}/remedies`);
  }

  /**
   * Acknowledge all alerts of an incident.
   *
   * @param {string} id
   * @param {string} note
   * @returns {Promise<{ ack: AlertMarks["ack"], alerts: Alert[] }>}
   */
  acknowledgeIncident(id, note) {
    return this.api.send("POST", `/incidents/${encodeURIComponent(id)}/ack`, { note });
  }

  /**
   * @param {string} id
   * @returns {Promise<{ ack: AlertMarks["ack"], alerts: Alert[] }>}
   */
  unacknowledgeIncident(id) {
    return this.api.send("DELETE", `/incidents/${encodeURIComponent(id)}/ack`);
  }

  /** @returns {Promise<{ items: Silence[] }>} */
  silences() {
    return this.api.ask("/silences");
  }

  /**
   * @param {NewSilence} wanted
   * @param {string | null} [id] of the existing one
   * @returns {Promise<Silence>}
   */
  putSilence(wanted, id = null) {
    return id === null
      ? this.api.send("POST", "/silences", wanted)
      : this.api.send("PUT", `/silences/${encodeURIComponent(id)}`, wanted);
  }

  /** @param {string} id */
  endSilence(id) {
    return this.api.send("DELETE", `/silences/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string[]} matchers
   * @returns {Promise<{ items: string[], open: number }>}
   */
  trySilence(matchers) {
    return this.api.send("POST", "/silences/test", { matchers });
  }

  /** @returns {Promise<{ items: Channel[], kinds: ChannelKind[] }>} */
  channels() {
    return this.api.ask("/channels");
  }

  /**
   * @param {ChannelChange} wanted
   * @param {string | null} [id] of the existing one
   * @returns {Promise<Channel>}
   */
  putChannel(wanted, id = null) {
    return id === null
      ? this.api.send("POST", "/channels", wanted)
      : this.api.send("PATCH", `/channels/${encodeURIComponent(id)}`, wanted);
  }

  /** @param {string} id */
  deleteChannel(id) {
    return this.api.send("DELETE", `/channels/${encodeURIComponent(id)}`, undefined, { keepalive: true });
  }

  /**
   * @param {string} id
   * @returns {Promise<{ ok: boolean, detail: string }>}
   */
  testChannel(id) {
    return this.api.send("POST", `/channels/${encodeURIComponent(id)}/test`);
  }

  /** @returns {Promise<PushStatus>} */
  push() {
    return this.api.ask("/push");
  }

  /**
   * @param {{ endpoint?: string, keys?: Record<string, string>, name: string }} subscription
   * @returns {Promise<PushSubscriptionItem>}
   */
  putSubscription(subscription) {
    return this.api.send("PUT", "/push/subscriptions", subscription);
  }

  /** @param {string} id */
  deleteSubscription(id) {
    return this.api.send("DELETE", `/push/subscriptions/${encodeURIComponent(id)}`);
  }

  /**
   * @param {string} id
   * @returns {Promise<{ ok: boolean, detail: string }>}
   */
  testSubscription(id) {
    return this.api.send("POST", `/push/subscriptions/${encodeURIComponent(id)}/test`);
  }

  /** @returns {Promise<Routing>} */
  routes() {
    return this.api.ask("/routes");
  }

  /**
   * @param {Routing} doc
   * @returns {Promise<Routing>}
   */
  putRoutes(doc) {
    return this.api.send("PUT", "/routes", doc);
  }

  /**
   * @param {Routing | null} routing
   * @param {Record<string, string> | null} labels
   * @returns {Promise<{ items: RouteTrial[], left_out: number }>}
   */
  tryRoutes(routing, labels) {
    return this.api.send("POST", "/routes/test", { routing, labels });
  }

  /**
   * Return what a notification says.
   *
   * @param {string} id
   * @returns {Promise<{ title: string, text: string }>}
   */
  message(id) {
    return this.api.ask(`/deliveries/${encodeURIComponent(id)}/message`);
  }

  /**
   * @param {{ channel?: string, state?: string, before?: string | null, limit?: number }} filter
   * @returns {Promise<{ items: Delivery[], next: string | null }>}
   */
  deliveries(filter) {
    return this.api.ask(`/deliveries${query(filter)}`);
  }

  /**
   * @param {string} id
   * @returns {Promise<Delivery>}
   */
  retry(id) {
    return this.api.send("POST", `/deliveries/${encodeURIComponent(id)}/retry`);
  }

  /**
   * @param {string | null} after
   * @returns {Promise<{ items: BrowserNote[], next: string | null }>}
   */
  notes(after) {
    return this.api.ask(`/notifications${query({ after, limit: after === null ? 1 : 100 })}`);
  }

  /** @returns {Promise<{ items: TokenRow[] }>} */
  tokens() {
    return this.api.ask("/tokens");
  }

  /**
   * @param {string} name
   * @param {string} scope
   * @param {string | null} project
   * @returns {Promise<TokenRow>} with its secret, returned only once
   */
  makeToken(name, scope, project) {
    return this.api.send("POST", "/tokens", { name, scope, project });
  }

  /** @param {string} id */
  revokeToken(id) {
    return this.api.send("DELETE", `/tokens/${encodeURIComponent(id)}`);
  }

  /** @returns {Promise<{ items: ProjectRow[] }>} */
  projects() {
    return this.api.ask("/projects");
  }

  /**
   * Return who did what, newest first (admin scope).
   *
   * @param {number} limit
   * @returns {Promise<{ items: AuditRow[] }>}
   */
  audit(limit) {
    return this.api.ask(`/audit${query({ limit })}`);
  }

  /** @returns {Promise<About>} */
  about() {
    return this.api.ask("/about");
  }

  /** @returns {Promise<HealthAnswer>} */
  health() {
    return this.api.ask("/health");
  }
}
