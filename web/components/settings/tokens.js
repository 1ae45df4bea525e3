/**
 * Settings: the access tokens. Create one, whose secret is shown once, and revoke one.
 *
 * Data: data/alertingapi.js.
 */

import { el, refill } from "../../browser/dom.js";
import { ago, moment } from "../../lib/format.js";
import { copyButton } from "../code.js";
import { ask, failed, field, formDialog } from "../form.js";
import { selectInput, textInput } from "../inputs.js";
import { icon } from "../icons.js";
import { showUndo } from "../undo.js";

const SCOPES = /** @type {const} */ ([
  ["ingest", "ingest: report runs only"],
  ["read", "read: view everything"],
  ["write", "write: also acknowledge, silence, archive, delete"],
  ["admin", "admin: also channels, routes, tokens"],
]);

export class Tokens {
  /** @type {TokenRow[]} */
  #tokens = [];

  /**
   * @param {App} app
   * @param {() => void} changed
   */
  constructor(app, changed) {
    this.app = app;
    this.changed = changed;
    this.made = el("div", { role: "status" });
    this.list = el("div", {}, el("p.muted", {}, "–"));
    this.node = el("div", {}, this.made, this.list);
    this.button = el(
      "button.btn",
      { type: "button", onclick: () => this.#newToken() },
      icon("plus"),
      "New token",
    );
  }

  async load() {
    try {
      this.#tokens = (await this.app.alerting.tokens()).items;
      this.#show();
    } catch (error) {
      failed(this.list, error, () => void this.load());
    }
  }

  #show() {
    const rows = [...this.#tokens].sort(
      (a, b) => Number(a.revoked_ms !== null) - Number(b.revoked_ms !== null) || b.created_ms - a.created_ms,
    );
    const now = this.app.clock.now();
    const row = (/** @type {TokenRow} */ token) =>
      el(
        "tr",
        { class: token.revoked_ms ? "muted" : "", "data-token": token.id },
        el("td", {}, token.name),
        el("td.nowrap", {}, token.scope),
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
      this.list,
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
        void this.load();
        this.changed();
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
        void this.load();
        this.changed();
      },
    );
  }
}
