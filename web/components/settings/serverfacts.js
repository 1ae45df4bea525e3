/**
 * Settings: the server, and how it monitors itself.
 *
 * Data: data/alertingapi.js.
 */

import { el, refill } from "../../browser/dom.js";
import { bytes, counted, int, moment } from "../../lib/format.js";
import { failed } from "../form.js";

/** @type {Record<string, string>} */
const DATABASES = { sqlite: "SQLite", postgresql: "Postgres" };

export class ServerFacts {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.server = el("div", {}, el("p.muted", {}, "–"));
    this.watch = el("div", {}, el("p.muted", {}, "–"));
  }

  async load() {
    try {
      const [about, health] = await Promise.all([this.app.alerting.about(), this.app.alerting.health()]);
      this.#facts(about, health);
      this.#watchers(about, health);
    } catch (error) {
      if (!this.server.querySelector("dl")) failed(this.server, error, () => void this.load());
    }
  }

  /**
   * @param {About} about
   * @param {HealthAnswer} health
   */
  #facts(about, health) {
    const days = (/** @type {number} */ n) => (n ? counted(n, "day") : "indefinitely");
    const { database, bytes: size, free_bytes: free } = about.storage;
    const own = Object.entries(about.retention.projects);
    const connected = health.connections?.training_processes ?? 0;
    list(this.server, [
      ["Version", `tocsin ${about.version}, Python ${about.python}, plotly ${this.app.session.plotly}`],
      ["Ingest address", this.app.session.ingest_url],
      ["HTTP API", el("a.link", { href: "/docs" }, "Routes and schemas")],
      [
        "Database",
        [DATABASES[database] ?? database, bytes(size), free === null ? "" : `${bytes(free)} free on its disk`]
          .filter(Boolean)
          .join(", "),
      ],
      [
        "Runs",
        `${int(about.runs)}, ${counted(connected, "training process", "training processes")} connected`,
      ],
      [
        "Retention of ended runs",
        [days(about.retention.days), ...own.map(([project, n]) => `${project}: ${days(n)}`)].join(" · "),
      ],
      ["Time zone", `${about.zone}, now ${moment(about.now_ms)}`],
      [
        "Private addresses in channels",
        about.private_addresses ? "allowed (notify_private_addresses)" : "rejected",
      ],
    ]);
  }

  /**
   * @param {About} about
   * @param {HealthAnswer} health
   */
  #watchers(about, health) {
    const news = health.notifications;
    const undelivered = news?.failing.length ? `, failing: ${news.failing.join(", ")}` : "";
    const failing = health.writer?.failing;
    /** @type {[string, string][]} */
    const disabled = (health.writer?.rules_disabled ?? []).map(({ rule, run }) => [
      "Disabled after errors",
      `${rule === "*" ? "all rules" : rule} for run ${run}; the server's log has the reason`,
    ]);
    list(this.watch, [
      [
        "State",
        health.status === "ok" ? "ok: records are stored" : `failing: ${String(failing ?? health.status)}`,
      ],
      [
        "Outgoing ping",
        about.ping
          ? `${about.ping.host}, every ${about.ping.every_s} s; with /fail appended while there is a problem`
          : "none. Set ping_url so that healthchecks.io or similar notices if tocsin stops.",
      ],
      [
        "Watchdog",
        "sent to every Alertmanager channel as an alert that always fires; alert on its absence there",
      ],
      [
        "Deliveries",
        news ? `${int(news.waiting)} waiting, ${int(news.failed)} failed in the last day${undelivered}` : "–",
      ],
      ...disabled,
      ["Monitoring", "/metrics, /api/v1/health, /api/v1/ready"],
    ]);
  }
}

/**
 * Facts below one another; unchanged ones are not rewritten.
 *
 * @param {HTMLElement} host
 * @param {[string, string | Node][]} pairs
 */
function list(host, pairs) {
  const key = JSON.stringify(pairs);
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  refill(
    host,
    el("dl.pairs", {}, ...pairs.map(([head, text]) => el("div", {}, el("dt", {}, head), el("dd", {}, text)))),
  );
}
