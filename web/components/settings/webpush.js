/**
 * Settings: web push. Subscribes and unsubscribes this browser, and lists the subscribed ones.
 *
 * Data: data/alertingapi.js, and the subscription of browser/push.js.
 */

import { el, refill } from "../../browser/dom.js";
import { currentSubscription, described, environment, subscribe } from "../../browser/push.js";
import { ago, moment } from "../../lib/format.js";
import { obstacle } from "../../lib/push.js";
import { failed } from "../form.js";

const KIND = "push";
const NEW_CHANNEL = { name: "Web push", kind: KIND };

export class WebPush {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.node = el("dd", { "data-push": "" }, el("p.muted", {}, "–"));
    /** @type {string | null} */
    this.id = null;
    this.result = "";
  }

  async load() {
    try {
      const subscription = await currentSubscription();
      this.id = subscription && (await this.app.alerting.putSubscription(described(subscription))).id;
      this.#show(await this.app.alerting.push());
    } catch (error) {
      failed(this.node, error, () => void this.load());
    }
  }

  /** @param {PushStatus} status */
  #show(status) {
    this.node.dataset.push = this.id === null ? "off" : "on";
    const others = status.items.filter(({ id }) => id !== this.id);
    const actions = this.#actions();
    refill(
      this.node,
      actions.length || this.result
        ? el("div.row", {}, ...actions, el("span", { role: "status" }, this.result))
        : null,
      el("p.micro", {}, this.#explanation(status), " ", el("a.link", { href: "/channels" }, "Channels"), "."),
      others.length ? this.#list(others) : null,
    );
  }

  #actions() {
    if (this.id !== null) {
      return [
        el("button.btn", { type: "button", onclick: () => void this.#test() }, "Send a test"),
        el("button.btn", { type: "button", onclick: () => void this.#unsubscribe() }, "Unsubscribe"),
      ];
    }
    if (obstacle(environment())) return [];
    const run = () => void this.#subscribe();
    return [el("button.btn.primary", { type: "button", onclick: run }, "Subscribe this browser")];
  }

  /** @param {PushStatus} status */
  #explanation({ channels }) {
    const why = this.id === null ? obstacle(environment()) : "";
    if (why) return why;
    const how = "Notifications arrive even if no page is open.";
    if (channels.length) return `${how} Sent by ${channels.join(", ")}.`;
    if (this.#isAdmin()) return `${how} Subscribing adds a Web push channel.`;
    return `${how} There is no Web push channel yet. Ask an admin to add one.`;
  }

  #isAdmin() {
    return this.app.session.scope === "admin";
  }

  /** @param {PushSubscriptionItem[]} items */
  #list(items) {
    const row = (/** @type {PushSubscriptionItem} */ { id, name, by, confirmed_ms: at }) =>
      el(
        "li.row",
        { "data-subscription": id },
        el("span", {}, `${name || "Unnamed browser"}, ${by}`),
        el("span.muted", { title: moment(at) }, `last opened ${ago(at, this.app.clock.now())}`),
        this.#isAdmin()
          ? el(
              "button.btn",
              { type: "button", "aria-label": `Remove ${name}`, onclick: () => void this.#remove(id) },
              "Remove",
            )
          : null,
      );
    return el("ul.plain-list", { "aria-label": "Other subscribed browsers" }, ...items.map(row));
  }

  #subscribe() {
    return this.#attempt("Subscribed", async () => {
      const { key, channels } = await this.app.alerting.push();
      await this.app.alerting.putSubscription(described(await subscribe(key)));
      if (!channels.length && this.#isAdmin()) await this.app.alerting.putChannel(NEW_CHANNEL);
    });
  }

  #unsubscribe() {
    return this.#attempt("Unsubscribed", async () => {
      const id = this.id;
      await (await currentSubscription())?.unsubscribe();
      if (id !== null) await this.app.alerting.deleteSubscription(id);
    });
  }

  #test() {
    return this.#attempt("Sent", async () => {
      const { ok, detail } = await this.app.alerting.testSubscription(String(this.id));
      if (!ok) throw new Error(`Not sent: ${detail}`);
    });
  }

  /** @param {string} id */
  #remove(id) {
    return this.#attempt("Removed", () => this.app.alerting.deleteSubscription(id));
  }

  /**
   * @param {string} done what to say afterwards
   * @param {() => Promise<unknown>} work
   */
  async #attempt(done, work) {
    this.result = "";
    try {
      await work();
      this.result = done;
    } catch (error) {
      this.result = /** @type {Error} */ (error).message;
    }
    await this.load();
  }
}
