/**
 * Settings: the projects, with links to their runs.
 *
 * Data: data/alertingapi.js.
 */

import { el, refill } from "../../browser/dom.js";
import { ago, int, moment } from "../../lib/format.js";
import { failed } from "../form.js";

export class Projects {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.node = el("div", {}, el("p.muted", {}, "–"));
  }

  async load() {
    try {
      const { items } = await this.app.alerting.projects();
      refill(
        this.node,
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
      failed(this.node, error, () => void this.load());
    }
  }
}
