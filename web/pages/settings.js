/**
 * Settings: access tokens, this browser, and information about the server.
 *
 * Data: each section loads its own. State: none in the address. View: components/settings/, one module per
 * section.
 */

import { el, refill } from "../browser/dom.js";
import { AuditLog } from "../components/settings/auditlog.js";
import { Embeds } from "../components/settings/embeds.js";
import { Projects } from "../components/settings/projects.js";
import { RemedyLedger } from "../components/settings/remedies.js";
import { ServerFacts } from "../components/settings/serverfacts.js";
import { ThisBrowser } from "../components/settings/thisbrowser.js";
import { Tokens } from "../components/settings/tokens.js";

const EVERY_MS = 10_000;

class Settings {
  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.audit = new AuditLog(app);
    this.tokens = new Tokens(app, () => void this.audit.load());
    this.embeds = new Embeds(app);
    this.browser = new ThisBrowser(app);
    this.facts = new ServerFacts(app);
    this.projects = new Projects(app);
    this.remedies = new RemedyLedger(app);
  }

  open() {
    this.app.title("Settings");
    refill(
      this.main,
      el("div.pagehead", {}, el("h1", {}, "Settings")),
      el(
        "div.settingscols",
        {},
        section("Access tokens", this.tokens.node, this.tokens.button),
        el(
          "div.settingscol",
          {},
          section("This browser", this.browser.node),
          section("Self-monitoring", this.facts.watch),
        ),
        el(
          "div.settingscol",
          {},
          section("Server", this.facts.server),
          section("Projects", this.projects.node),
          section("Remedies", this.remedies.node),
        ),
        ...(this.app.session.scope === "read" ? [] : [section("Embedded charts", this.embeds.node)]),
        section("Audit log", this.audit.node),
      ),
    );
    this.browser.show();
    this.redraw = () => this.browser.show();
    addEventListener("themechange", this.redraw);
    this.stops = [
      this.app.live.onReconnect(() => this.load()),
      this.app.live.onMessage("deliveries", () => void this.facts.load()),
    ];
    this.ticker = setInterval(() => {
      if (!document.hidden) void this.facts.load();
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
    const parts = [this.tokens, this.facts, this.projects, this.remedies, this.audit, this.browser.push];
    for (const each of parts) void each.load();
    if (this.app.session.scope !== "read") void this.embeds.load();
  }
}

/**
 * @param {string} title
 * @param {Node} body
 * @param {Node | null} extra
 */
function section(title, body, extra = null) {
  return el(
    "section.card.pad.settings",
    { "aria-label": title },
    el("div.row", {}, el("h2.grow", {}, title), extra),
    body,
  );
}

/** @type {OpenPage} */
export function settingsPage(app, main) {
  const page = new Settings(app, main);
  page.open();
  return page;
}
