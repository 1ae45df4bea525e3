/**
 * Settings: the links of embedded charts that were given out. Revoke one.
 *
 * Data: data/api.js.
 */

import { el, refill } from "../../browser/dom.js";
import { ago, moment } from "../../lib/format.js";
import { outside } from "../../lib/root.js";
import { runAddress } from "../../lib/route.js";
import { ask, failed } from "../form.js";
import { showUndo } from "../undo.js";

const HEADS = ["Chart", "Run", "By", "Created", "Valid until", "Revoke"];

export class Embeds {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.node = el("div", {}, el("p.muted", {}, "–"));
  }

  async load() {
    try {
      this.#show((await this.app.api.embeds()).items);
    } catch (error) {
      failed(this.node, error, () => void this.load());
    }
  }

  /** @param {EmbedItem[]} items */
  #show(items) {
    if (!items.length) {
      const text = "No links. Create one with Embed… in the menu of a chart.";
      return refill(this.node, el("p.muted", {}, text));
    }
    const heads = HEADS.map((text, i) =>
      el("th", { scope: "col", class: i === HEADS.length - 1 ? "n" : "" }, text),
    );
    refill(
      this.node,
      el("p.soft", {}, "Anyone who has a link sees its chart without a login."),
      el(
        "div.scroll",
        { tabindex: "0", role: "region", "aria-label": "Table of links to charts" },
        el(
          "table.plain-table",
          {},
          el("thead", {}, el("tr", {}, ...heads)),
          el("tbody", {}, ...items.map((item) => this.#row(item))),
        ),
      ),
    );
  }

  /** @param {EmbedItem} item */
  #row(item) {
    const { title } = item;
    return el(
      "tr",
      { "data-embed": item.id },
      el("td", {}, el("a", { href: outside(item.path), target: "_blank", rel: "noopener" }, title)),
      el("td.nowrap", {}, el("a", { href: runAddress(item.run) }, item.run_name)),
      el("td.nowrap", {}, item.author),
      el("td.nowrap", { title: moment(item.created_ms) }, ago(item.created_ms, this.app.clock.now())),
      el("td.nowrap", {}, moment(item.until_ms)),
      el(
        "td.n",
        {},
        el(
          "button.btn",
          {
            type: "button",
            "aria-label": `Revoke the link to ${title} of ${item.run_name}`,
            onclick: () => this.#revoke(item.id, title),
          },
          "Revoke",
        ),
      ),
    );
  }

  /**
   * @param {string} id
   * @param {string} title
   */
  #revoke(id, title) {
    ask(
      `Revoke the link to ${title}?`,
      "Pages that embed this chart will no longer show it. This cannot be undone.",
      "Revoke",
      async () => {
        await this.app.api.revokeEmbed(id);
        showUndo("The link was revoked", null);
        void this.load();
      },
    );
  }
}
