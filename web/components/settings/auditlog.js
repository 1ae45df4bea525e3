/**
 * Settings: the newest entries of the audit log.
 *
 * Data: data/alertingapi.js.
 */

import { el, refill } from "../../browser/dom.js";
import { flatten } from "../../lib/flatten.js";
import { ago, moment } from "../../lib/format.js";
import { failed } from "../form.js";

/** The most entries listed. */
const ACTS = 30;

export class AuditLog {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.node = el("div", {}, el("p.muted", {}, "–"));
  }

  /** The newest user actions: tokens, channels, silences, routes, acknowledgements, deletions. */
  async load() {
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
              .map(shown)
              .join(" · ") || "–",
          ),
        );
      refill(
        this.node,
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
      failed(this.node, error, () => void this.load());
    }
  }
}

/**
 * Return a detail in words; times are Unix milliseconds in the API.
 *
 * @param {[string, string]} detail
 */
const shown = ([key, text]) =>
  key.endsWith("_ms") ? `${key.slice(0, -3)} ${moment(Number(text))}` : `${key} ${text}`;
