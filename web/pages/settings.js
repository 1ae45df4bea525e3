/**
 * Settings: access tokens, this browser, and information about the server.
 *
 * Data: data/alertingapi.js, each section on its own. State: none in the address. View: one section per
 * method (#showTokens, #showBrowser and so on).
 */

import { el, refill } from "../browser/dom.js";
import { playAlert, setSound, soundOn } from "../browser/sound.js";
import { chooseTheme, theme } from "../browser/theme.js";
import { copyButton } from "../components/code.js";
import { segments } from "../components/filterbar.js";
import { ask, failed, field, formDialog, selectInput, textInput } from "../components/form.js";
import { permission, show } from "../components/header/notify.js";
import { icon } from "../components/icons.js";
import { showUndo } from "../components/undo.js";
import { flatten } from "../lib/flatten.js";
import { ago, bytes, counted, int, moment } from "../lib/format.js";

const EVERY_MS = 10_000;
/** The most entries of the audit log listed. */
const ACTS = 30;
const SCOPES = /** @type {const} */ ([
  ["ingest", "ingest: report runs only"],
  ["read", "read: view everything"],
  ["write", "write: also acknowledge, silence, archive, delete"],
  ["admin", "admin: also channels, routes, tokens"],
]);
const PERMISSIONS = /** @type {Record<string, string>} */ ({
  granted: "Allowed: open pages show the notifications of browser channels.",
  denied: "Blocked for this address. You can change that in the browser's site settings.",
  default: "Not asked yet.",
  unsupported: "Not supported: this browser has no notifications, or the page needs https or localhost.",
});

class Settings {
  /** @type {TokenRow[]} */
  #tokens = [];

  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.tokens = el("div");
    this.browser = el("div");
    this.server = el("div");
    this.watch = el("div");
    this.projects = el("div");
    this.audit = el("div");
    this.made = el("div", { role: "status" });
  }

  open() {
    this.app.title("Settings");
    const part = (
      /** @type {string} */ title,
      /** @type {Node} */ body,
      /** @type {Node | null} */ extra = null,
    ) =>
      el(
        "section.card.pad.settings",
        { "aria-label": title },
        el("div.row", {}, el("h2.grow", {}, title), extra),
        body,
      );
    refill(
      this.main,
      el("div.pagehead", {}, el("h1", {}, "Settings")),
      el(
        "div.settingscols",
        {},
        part(
          "Access tokens",
          el("div", {}, this.made, this.tokens),
          el("button.btn", { type: "button", onclick: () => this.#newToken() }, icon("plus"), "New token"),
        ),
        part("This browser", this.browser),
        part("Server", this.server),
        part("Self-monitoring", this.watch),
        part("Projects", this.projects),
        part("Audit log", this.audit),
      ),
    );
    for (const host of [this.tokens, this.server, this.watch, this.projects, this.audit]) {
      refill(host, el("p.muted", {}, "–"));
    }
    this.#showBrowser();
    this.redraw = () => this.#showBrowser();
    addEventListener("themechange", this.redraw);
    this.stops = [
      this.app.live.onReconnect(() => this.load()),
      this.app.live.onMessage("deliveries", () => void this.#loadFacts()),
    ];
    this.ticker = setInterval(() => {
      if (!document.hidden) void this.#loadFacts();
    }, EVERY_MS);
    this.load();
  }

  close() {
    for (const stop of this.stops ?? []) stop();
    clearInterval(this.ticker);
    if (this.redraw) removeEventListener("themechange", this.redraw);
  }

  moved() {
    return true;
  }

  load() {
    void this.#loadTokens();
    void this.#loadFacts();
    void this.#loadProjects();
    void this.#loadAudit();
  }

  // Tokens

  async #loadTokens() {
    try {
      this.#tokens = (await this.app.alerting.tokens()).items;
      this.#showTokens();
    } catch (error) {
      failed(this.tokens, error, () => void this.#loadTokens());
    }
  }

  #showTokens() {
    const rows = [...this.#tokens].sort(
      (a, b) => Number(a.revoked_ms !== null) - Number(b.revoked_ms !== null) || b.created_ms - a.created_ms,
    );
    const now = this.app.clock.now();
    const row = (/** @type {TokenRow} */ token) =>
      el(
        "tr",
        { class: token.revoked_ms ? "muted" : "", "data-token": token.id },
        el("td", {}, token.name),
        el("td", {}, token.scope),
        el("td", {}, token.project ?? "any"),
        el("td", { title: moment(token.created_ms) }, ago(token.created_ms, now)),
        el(
          "td.n",
          {},
          token.revoked_ms
            ? el("span", { title: moment(token.revoked_ms) }, "revoked")
            : el(
                "button.btn",
                { type: "button", "aria-label": `Revoke ${token.name}`, onclick: () => this.#revoke(token) },
                "Revoke",
              ),
        ),
      );
    refill(
      this.tokens,
      el(
        "p.soft",
        {},
        "A token's secret is shown once. The tokens admin and trainer of the data directory are managed ",
        "on the server's machine: ",
        el("code", {}, "tocsin-server token"),
      ),
      rows.length
        ? el(
            "div.scroll",
            { tabindex: "0", role: "region", "aria-label": "Table of tokens" },
            el(
              "table.plain-table",
              {},
              el(
                "thead",
                {},
                el(
                  "tr",
                  {},
                  ...["Name", "Scope", "Project", "Created", "Revoke"].map((text, i) =>
                    el("th", { scope: "col", class: i === 4 ? "n" : "" }, text),
                  ),
                ),
              ),
              el("tbody", {}, ...rows.map(row)),
            ),
          )
        : el("p.muted.then", {}, "No tokens yet."),
    );
  }

  #newToken() {
    const name = textInput("", { maxlength: 100, placeholder: "who or what it is for" });
    const scope = selectInput(SCOPES, "ingest");
    const project = textInput("", { placeholder: "any" });
    const fields = [
      field("name", "Name", name),
      field("scope", "Scope", scope),
      field("project", "Project", project, "Ingest tokens can be limited to one project"),
    ];
    formDialog({
      title: "New token",
      fields,
      submit: "Create",
      run: async () => {
        const made = await this.app.alerting.makeToken(name.value, scope.value, project.value.trim() || null);
        const secret = String(made.token);
        refill(
          this.made,
          el(
            "div.madetoken",
            {},
            el("p", {}, el("b", {}, made.name), " was created. Copy it now: it is not shown again."),
            el(
              "div.row",
              {},
              el("code.secret", {}, secret),
              copyButton("Copy", () => secret),
              el("button.btn.bare", { type: "button", onclick: () => refill(this.made) }, "Done"),
            ),
          ),
        );
        void this.#loadTokens();
        void this.#loadAudit();
      },
    });
  }

  /** @param {TokenRow} token */
  #revoke({ id, name }) {
    ask(
      `Revoke ${name}?`,
      "Everything that uses this token loses access within seconds. This cannot be undone.",
      "Revoke",
      async () => {
        await this.app.alerting.revokeToken(id);
        showUndo(`${name} was revoked`, null);
        void this.#loadTokens();
        void this.#loadAudit();
      },
    );
  }

  // This browser

  #showBrowser() {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    const row = (/** @type {string} */ head, /** @type {import("../browser/dom.js").Kid[]} */ ...kids) =>
      el("div", {}, el("dt", {}, head), el("dd", {}, ...kids));
    refill(
      this.browser,
      el(
        "dl.pairs",
        {},
        row("Theme", this.#themeChoice()),
        row("Sound", ...this.#soundChoice()),
        row("Notifications", ...this.#notificationChoice()),
        row(
          "Time zone",
          timeZone || "unknown",
          el("p.micro", {}, `Used for all times on these pages. Now: ${moment(this.app.clock.now())}`),
        ),
        row("Logged in as", `${this.app.session.name} (${this.app.session.scope})`),
      ),
    );
  }

  #themeChoice() {
    const themes = segments(
      "Theme",
      [
        ["system", "System"],
        ["light", "Light"],
        ["dark", "Dark"],
      ],
      (key) => {
        chooseTheme(/** @type {import("../browser/theme.js").Theme} */ (key));
        dispatchEvent(new Event("themechosen"));
        this.#showBrowser();
      },
    );
    themes.show(theme());
    return themes.node;
  }

  #soundChoice() {
    return [
      el(
        "div.row",
        {},
        el(
          "button.btn",
          {
            type: "button",
            "aria-pressed": String(soundOn()),
            onclick: () => {
              setSound(!soundOn());
              dispatchEvent(new Event("soundchosen"));
              this.#showBrowser();
            },
          },
          soundOn() ? "On" : "Off",
        ),
        soundOn() ? el("button.btn", { type: "button", onclick: () => playAlert() }, "Test") : null,
      ),
      el("p.micro", {}, "Plays when a critical alert fires, while a page is open."),
    ];
  }

  #notificationChoice() {
    const now = permission();
    const allow =
      now === "default"
        ? el(
            "button.btn.primary",
            { type: "button", onclick: () => void this.#askPermission() },
            "Allow notifications",
          )
        : null;
    return [
      el(
        "div.row",
        {},
        allow,
        now === "granted"
          ? el(
              "button.btn",
              {
                type: "button",
                onclick: () =>
                  show(
                    "tocsin: test",
                    "Notifications of browser channels look like this.",
                    "test",
                    "/settings",
                  ),
              },
              "Test",
            )
          : null,
        el("span", { "data-permission": now }, now === "default" ? "" : now),
      ),
      el(
        "p.micro",
        {},
        PERMISSIONS[now] ?? now,
        " Sent by channels of the kind Browser: ",
        el("a.link", { href: "/channels" }, "channels"),
        ".",
      ),
    ];
  }

  async #askPermission() {
    await Notification.requestPermission();
    this.#showBrowser();
  }

  // This server

  async #loadFacts() {
    try {
      const [about, health] = await Promise.all([this.app.alerting.about(), this.app.alerting.health()]);
      this.#facts(about, health);
      this.#watchers(about, health);
    } catch (error) {
      if (!this.server.querySelector("dl")) failed(this.server, error, () => void this.#loadFacts());
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
    list(this.server, [
      ["Version", `tocsin ${about.version}, Python ${about.python}, plotly ${this.app.session.plotly}`],
      ["Ingest address", this.app.session.ingest_url],
      [
        "Database",
        [database, bytes(size), free === null ? "" : `${bytes(free)} free on its disk`]
          .filter(Boolean)
          .join(", "),
      ],
      ["Runs", `${int(about.runs)}, ${int(health.connections?.trainers ?? 0)} training processes connected`],
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
      ["Monitoring", "/metrics, /api/v1/health, /api/v1/ready"],
    ]);
  }

  /** The newest user actions: tokens, channels, silences, routes, acknowledgements, deletions. */
  async #loadAudit() {
    try {
      const { items } = await this.app.alerting.audit(ACTS);
      const now = this.app.clock.now();
      const row = (/** @type {AuditRow} */ act) =>
        el(
          "tr",
          {},
          el("td.nowrap", { title: moment(act.at_ms) }, ago(act.at_ms, now)),
          el("td", {}, act.by),
          el("td", {}, act.action),
          el("td", {}, act.subject),
          el(
            "td",
            {},
            flatten(act.details)
              .filter(([, text]) => text !== "[]")
              .map(([key, text]) => `${key} ${text}`)
              .join(" · ") || "–",
          ),
        );
      refill(
        this.audit,
        items.length
          ? el(
              "div.scroll",
              { tabindex: "0", role: "region", "aria-label": "Table of user actions" },
              el(
                "table.plain-table.acts",
                {},
                el(
                  "thead",
                  {},
                  el(
                    "tr",
                    {},
                    ...["When", "Who", "Action", "Target", "Details"].map((text) =>
                      el("th", { scope: "col" }, text),
                    ),
                  ),
                ),
                el("tbody", {}, ...items.map(row)),
              ),
            )
          : el("p.muted", {}, "No changes yet."),
      );
    } catch (error) {
      failed(this.audit, error, () => void this.#loadAudit());
    }
  }

  async #loadProjects() {
    try {
      const { items } = await this.app.alerting.projects();
      refill(
        this.projects,
        items.length
          ? el(
              "div.scroll",
              { tabindex: "0", role: "region", "aria-label": "Table of projects" },
              el(
                "table.plain-table",
                {},
                el(
                  "thead",
                  {},
                  el(
                    "tr",
                    {},
                    ...["Project", "Runs", "Active", "Last seen"].map((text, i) =>
                      el("th", { scope: "col", class: i === 1 || i === 2 ? "n" : "" }, text),
                    ),
                  ),
                ),
                el(
                  "tbody",
                  {},
                  ...items.map((item) =>
                    el(
                      "tr",
                      {},
                      el(
                        "td",
                        {},
                        el(
                          "a.link",
                          { href: `/?q=${encodeURIComponent(`project:"${item.name}"`)}` },
                          item.name,
                        ),
                      ),
                      el("td.n", {}, int(item.runs)),
                      el("td.n", {}, int(item.active)),
                      el(
                        "td",
                        { title: moment(item.last_seen_ms) },
                        ago(item.last_seen_ms, this.app.clock.now()),
                      ),
                    ),
                  ),
                ),
              ),
            )
          : el("p.muted", {}, "No projects yet. The first run creates one."),
      );
    } catch (error) {
      failed(this.projects, error, () => void this.#loadProjects());
    }
  }
}

/**
 * Facts below one another; unchanged ones are not rewritten.
 *
 * @param {HTMLElement} host
 * @param {[string, string][]} pairs
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

/** @type {OpenPage} */
export function settingsPage(app, main) {
  const page = new Settings(app, main);
  page.open();
  return page;
}
