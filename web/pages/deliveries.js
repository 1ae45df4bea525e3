/**
 * The delivery log: what was sent, what waits and what failed, with every attempt.
 *
 * Data: data/alertingapi.js, page by page. State: the address (the filter). View: one row per delivery
 * (#row), with its attempts.
 */

import { el, focusIn, refill, say } from "../browser/dom.js";
import { subnav } from "../components/alerts/subnav.js";
import { segments } from "../components/filterbar.js";
import { failed } from "../components/form.js";
import { selectInput } from "../components/inputs.js";
import { icon } from "../components/icons.js";
import { showUndo } from "../components/undo.js";
import { ago, clock as clockTime, counted, moment, span } from "../lib/format.js";

const STATES = /** @type {const} */ ([
  ["", "All"],
  ["failed,waiting", "Undelivered"],
  ["waiting,claimed", "Waiting"],
  ["failed", "Failed"],
  ["sent", "Sent"],
]);
const SHAPES = { waiting: "waiting", claimed: "waiting", sent: "check", failed: "failed" };
const KINDS = /** @type {Record<string, string>} */ ({
  alerts: "",
  update: "update",
  digest: "digest",
  late: "late digest",
  test: "test",
  run: "run failed",
});
const PAGE = 50;
const EVERY_MS = 5_000;

class Deliveries {
  /** @type {Delivery[]} */
  #items = [];
  /** @type {Channel[]} */
  #channels = [];
  /** @type {Set<string>} whose attempts are expanded */
  #open = new Set();
  /** @type {Set<string>} */
  #retrying = new Set();
  #next = /** @type {string | null} */ (null);
  #most = PAGE;
  #turn = 0;
  #loaded = false;

  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.count = el("span.muted", {}, "–");
    this.states = segments("Which deliveries", STATES, (state) => this.#go({ state }));
    this.channel = selectInput([["", "all channels"]], "", {
      "aria-label": "Channel",
      onchange: () => this.#go({ channel: this.channel.value }),
    });
    this.rows = el("div");
    this.more = el(
      "button.btn.morerows",
      {
        type: "button",
        hidden: true,
        onclick: () => {
          this.#most += PAGE;
          void this.load();
        },
      },
      "Show older",
    );
    this.list = el("section.card.listing", { "aria-label": "Deliveries" }, this.rows, this.more);
  }

  open() {
    this.app.title("Deliveries");
    refill(
      this.main,
      subnav(),
      el("div.pagehead", {}, el("h1", {}, "Deliveries"), this.count),
      el("div.bar", {}, this.states.node, this.channel),
      this.list,
    );
    refill(this.rows, el("p.pad.muted", {}, "–"));
    const load = () => void this.load();
    this.stops = [
      this.app.live.onMessage("deliveries", load),
      this.app.live.onMessage("notification", load),
      this.app.live.onReconnect(load),
    ];
    this.ticker = setInterval(() => {
      if (!document.hidden) load();
    }, EVERY_MS);
    load();
  }

  close() {
    for (const stop of this.stops ?? []) stop();
    clearInterval(this.ticker);
  }

  moved() {
    void this.load();
    return true;
  }

  get view() {
    const asked = new URLSearchParams(location.search);
    const state = asked.get("state") ?? "";
    return { state: STATES.some(([key]) => key === state) ? state : "", channel: asked.get("channel") ?? "" };
  }

  /** @param {{ state?: string, channel?: string }} change */
  #go(change) {
    const pairs = Object.entries({ ...this.view, ...change }).filter(([, value]) => value);
    history.replaceState(
      null,
      "",
      location.pathname + (pairs.length ? `?${new URLSearchParams(pairs)}` : ""),
    );
    this.#most = PAGE;
    void this.load();
  }

  async load() {
    const mine = ++this.#turn;
    const { state, channel } = this.view;
    this.states.show(state);
    try {
      const [log, channels] = await Promise.all([
        this.app.alerting.deliveries({ state, channel, limit: Math.min(1000, this.#most) }),
        this.app.alerting.channels(),
      ]);
      if (mine !== this.#turn) return;
      this.#items = log.items;
      this.#next = log.next;
      this.#channels = channels.items;
      this.#loaded = true;
      this.#draw();
    } catch (error) {
      if (mine === this.#turn && !this.#loaded) failed(this.rows, error, () => void this.load());
    }
  }

  #draw() {
    const { state, channel } = this.view;
    const choices = JSON.stringify(this.#channels.map(({ id, name }) => [id, name]));
    if (this.channel.dataset.key !== choices) {
      this.channel.dataset.key = choices;
      refill(
        this.channel,
        el("option", { value: "" }, "all channels"),
        ...this.#channels.map((each) => el("option", { value: each.id }, each.name)),
      );
    }
    this.channel.value = channel;
    say(this.count, `${this.#next ? "the newest " : ""}${counted(this.#items.length, "notification")}`);
    this.more.hidden = !this.#next || this.#most >= 1000;
    const now = this.app.clock.now();
    const key = JSON.stringify([
      this.#items,
      [...this.#retrying],
      this.#items.map((item) => this.#standing(item, now)),
    ]);
    if (key === this.rows.dataset.key) return;
    this.rows.dataset.key = key;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.focus;
    refill(
      this.rows,
      ...(this.#items.length
        ? this.#items.map((item) => this.#row(item, now))
        : [this.#empty(state, channel)]),
    );
    if (focused) focusIn(this.rows, `[data-focus="${CSS.escape(focused)}"]`);
  }

  /**
   * @param {string} state
   * @param {string} channel
   */
  #empty(state, channel) {
    if (state || channel) {
      return el(
        "div.pad",
        {},
        el("p.soft", {}, "No delivery matches this filter."),
        el(
          "button.btn.then",
          { type: "button", onclick: () => this.#go({ state: "", channel: "" }) },
          "Show all",
        ),
      );
    }
    return el(
      "div.pad.healthy",
      {},
      el("h2", {}, icon("info"), " No deliveries yet"),
      el(
        "p.soft",
        {},
        this.#channels.length
          ? "Notifications of alerts appear here with every delivery attempt."
          : "There is no channel yet, so alerts are shown on these pages only.",
      ),
      el("a.btn.then", { href: "/channels" }, "Channels"),
    );
  }

  /**
   * @param {Delivery} item
   * @param {number} now
   */
  #standing(item, now) {
    if (item.state === "sent") {
      return [
        `sent ${clockTime(item.sent_ms)}`,
        `after ${span(Math.max(0, ((item.sent_ms ?? 0) - item.created_ms) / 1000))}`,
      ];
    }
    if (item.state === "failed") {
      return ["failed", `given up ${ago(item.attempts.at(-1)?.at_ms ?? item.created_ms, now)}`];
    }
    if (item.state === "claimed") return ["sending", `attempt ${item.attempts.length + 1}`];
    return [
      "waiting",
      item.due_ms && item.due_ms > now ? `retry in ${span(Math.round((item.due_ms - now) / 1000))}` : "next",
    ];
  }

  /**
   * @param {Delivery} item
   * @param {number} now
   */
  #row(item, now) {
    const [state, note] = this.#standing(item, now);
    const bad = item.state === "failed" || (item.state === "waiting" && item.error);
    const log = el(
      "details",
      { open: this.#open.has(item.id) },
      el("summary", { "data-focus": `log-${item.id}` }, counted(item.attempts.length, "attempt")),
      el("ol.attempts", {}, ...item.attempts.map((each) => this.#attempt(each))),
    );
    log.addEventListener("toggle", () => {
      if (/** @type {HTMLDetailsElement} */ (log).open) this.#open.add(item.id);
      else this.#open.delete(item.id);
    });
    return el(
      "article.sil",
      { "data-delivery": item.id, "aria-label": `${item.title}, ${state}` },
      el("span.shape", { class: bad ? "is-warning" : "" }, icon(SHAPES[item.state], state)),
      el(
        "div.what",
        {},
        el(
          "h2.row",
          {},
          el("span", {}, item.title),
          KINDS[item.kind] === "" ? null : el("span.chip", {}, KINDS[item.kind] ?? item.kind),
        ),
        el("p.micro", {}, `to ${item.channel ?? "a deleted channel"} · created ${moment(item.created_ms)}`),
        item.error ? el("p.trouble", {}, icon("warning"), " ", item.error) : null,
        item.attempts.length ? log : null,
        this.#message(item),
      ),
      el(
        "div.when",
        { title: moment(item.sent_ms ?? item.created_ms) },
        el("div", {}, state),
        el("div.micro", {}, note),
      ),
      el(
        "div.rowacts",
        {},
        item.state === "failed" && item.channel
          ? el(
              "button.btn",
              {
                type: "button",
                "data-focus": `retry-${item.id}`,
                disabled: this.#retrying.has(item.id),
                onclick: () => void this.#retry(item),
              },
              "Retry",
            )
          : null,
      ),
    );
  }

  /**
   * What the notification says, requested when it is opened.
   *
   * @param {Delivery} item
   */
  #message(item) {
    const id = `message-${item.id}`;
    const text = el("pre.message", { tabindex: "0" }, "–");
    const node = el(
      "details",
      { open: this.#open.has(id) },
      el("summary", { "data-focus": id }, "Message"),
      text,
    );
    const request = async () => {
      try {
        say(text, (await this.app.alerting.message(item.id)).text);
      } catch (error) {
        say(text, /** @type {Error} */ (error).message);
      }
    };
    node.addEventListener("toggle", () => {
      const { open } = /** @type {HTMLDetailsElement} */ (node);
      if (open) this.#open.add(id);
      else this.#open.delete(id);
      if (open) void request();
    });
    return node;
  }

  /** @param {DeliveryAttempt} each */
  #attempt({ no, at_ms, took_ms, outcome, detail }) {
    return el(
      "li",
      {},
      el("span.nowrap.muted", { title: moment(at_ms) }, clockTime(at_ms)),
      icon(outcome === "sent" ? "check" : outcome === "retry" ? "warning" : "failed"),
      el(
        "span",
        {},
        el("b", {}, `${no}. ${outcome}`),
        ` in ${span(took_ms / 1000)} `,
        el("span.soft", {}, detail),
      ),
    );
  }

  /** @param {Delivery} item */
  async #retry(item) {
    this.#retrying.add(item.id);
    this.#draw();
    try {
      await this.app.alerting.retry(item.id);
    } catch (error) {
      showUndo(`Not sent again: ${/** @type {Error} */ (error).message}`, null);
    }
    this.#retrying.delete(item.id);
    void this.load();
  }
}

/** @type {OpenPage} */
export function deliveriesPage(app, main) {
  const page = new Deliveries(app, main);
  page.open();
  return page;
}
