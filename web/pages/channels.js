/**
 * Channels: where notifications go, the state of each, and a button to test it.
 *
 * Data: data/alertingapi.js, loaded again when the live socket reports a change. State: none in the address.
 * View: one row per channel (#row); components/alerts/channelform.js edits one.
 */

import { el, focusIn, refill, say } from "../browser/dom.js";
import { isShortcut } from "../browser/shortcuts.js";
import { channelForm, usualFirst } from "../components/alerts/channelform.js";
import { subnav } from "../components/alerts/subnav.js";
import { failed, scopeNote } from "../components/form.js";
import { icon } from "../components/icons.js";
import { showUndo } from "../components/undo.js";
import { ago, counted, dotted, int, moment } from "../lib/format.js";

const AGE_MS = 5_000;

class Channels {
  /** @type {Channel[]} */
  #items = [];
  /** @type {ChannelKind[]} */
  #kinds = [];
  /** @type {Map<string, { ok: boolean, detail: string } | "asked">} results of the last tests */
  #tests = new Map();
  /** @type {Set<string>} deleted channels that can still be restored */
  #gone = new Set();
  #loaded = false;

  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.count = el("span.muted", {}, "–");
    this.list = el("section.card.listing", { "aria-label": "Channels" });
    this.key = (/** @type {KeyboardEvent} */ event) => this.#press(event);
  }

  open() {
    this.app.title("Channels");
    refill(
      this.main,
      subnav(),
      el(
        "div.pagehead",
        {},
        el("h1", {}, "Channels"),
        this.count,
        el("span.grow"),
        el(
          "button.btn.primary",
          { type: "button", onclick: () => this.#new() },
          icon("plus"),
          "New channel ",
          el("kbd.wide-only", {}, "N"),
        ),
      ),
      scopeNote(this.app, "admin"),
      this.list,
    );
    document.addEventListener("keydown", this.key);
    this.stops = [
      this.app.live.onMessage("changed", ({ what }) => {
        if (what === "channels") void this.load();
      }),
      this.app.live.onMessage("deliveries", () => void this.load()),
      this.app.live.onReconnect(() => void this.load()),
    ];
    this.ticker = setInterval(() => this.#draw(), AGE_MS);
    refill(this.list, el("p.pad.muted", {}, "–"));
    void this.load();
  }

  close() {
    for (const stop of this.stops ?? []) stop();
    clearInterval(this.ticker);
    document.removeEventListener("keydown", this.key);
  }

  moved() {
    return true;
  }

  async load() {
    try {
      const { items, kinds } = await this.app.alerting.channels();
      this.#items = items;
      this.#kinds = kinds;
      this.#loaded = true;
      this.#draw();
    } catch (error) {
      if (!this.#loaded) failed(this.list, error, () => void this.load());
    }
  }

  #draw() {
    if (!this.#loaded) return;
    const shown = this.#items.filter((channel) => !this.#gone.has(channel.id));
    const trouble = shown.filter((channel) => channel.enabled && channel.trouble).length;
    say(
      this.count,
      dotted(
        counted(shown.length, "channel"),
        `${int(shown.filter((channel) => channel.enabled).length)} on`,
        trouble ? `${int(trouble)} failing` : "",
      ),
    );
    const key = JSON.stringify([
      shown,
      [...this.#tests],
      shown.map((channel) => ago(channel.last_sent_ms, this.app.clock.now())),
    ]);
    if (key === this.list.dataset.key) return;
    this.list.dataset.key = key;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.focus;
    refill(this.list, ...(shown.length ? shown.map((channel) => this.#row(channel)) : [this.#empty()]));
    if (focused) focusIn(this.list, `[data-focus="${CSS.escape(focused)}"]`);
  }

  #empty() {
    return el(
      "div.pad.healthy",
      {},
      el("h2", {}, icon("info"), " No notification channels"),
      el("p.soft", {}, "Alerts are shown on these pages only. Choose where else you want to get them."),
      el(
        "div.row.then",
        {},
        ...usualFirst(this.#kinds).map(({ id, title }) =>
          el("button.btn.wraps", { type: "button", onclick: () => this.#new(id) }, icon("plus"), title),
        ),
      ),
    );
  }

  /** @param {Channel} channel */
  #row(channel) {
    const { id, name, kind, enabled, trouble } = channel;
    const title = this.#kinds.find((each) => each.id === kind)?.title ?? kind;
    const state = !enabled ? "off" : trouble ? "failing" : "on";
    return el(
      "article.sil",
      { "data-channel": id, class: enabled ? "" : "done", "aria-label": `Channel ${name}` },
      el(
        "span.shape",
        { class: trouble && enabled ? "is-warning" : "" },
        icon(state === "on" ? "check" : state === "off" ? "mute" : "warning", state),
      ),
      el(
        "div.what",
        {},
        el("h2.row", {}, el("span", {}, name), el("span.chip", {}, title)),
        el("p.micro", {}, ...this.#facts(channel)),
        trouble ? el("p.trouble", {}, icon("warning"), " ", trouble) : null,
        this.#test(id),
      ),
      el(
        "div.when",
        { title: moment(channel.last_sent_ms) },
        el("div", {}, state),
        el(
          "div.micro",
          {},
          channel.last_sent_ms
            ? `last notified ${ago(channel.last_sent_ms, this.app.clock.now())}`
            : "nothing sent yet",
        ),
      ),
      el(
        "div.rowacts",
        {},
        this.#button(id, "test", "Test", () => void this.#try(id)),
        this.#button(id, "edit", "Edit", () =>
          channelForm(this.app, this.#kinds, channel, () => void this.load()),
        ),
        this.#button(id, "switch", enabled ? "Disable" : "Enable", () => void this.#switch(channel)),
        this.#button(id, "delete", "Delete", () => void this.#delete(channel)),
      ),
    );
  }

  /**
   * @param {string} id
   * @param {string} what
   * @param {string} text
   * @param {() => void} act
   */
  #button(id, what, text, act) {
    return el("button.btn", { type: "button", "data-focus": `${what}-${id}`, onclick: act }, text);
  }

  /**
   * @param {Channel} channel
   * @returns {(Node | string)[]}
   */
  #facts({ id, config, limit_per_hour }) {
    const shown = Object.entries(config).map(([key, value]) => `${key} ${value}`);
    return [
      `${[...shown, limit_per_hour ? `at most ${int(limit_per_hour)} per hour` : "no limit"].join(" · ")} · `,
      el("a.link", { href: `/deliveries?channel=${encodeURIComponent(id)}` }, "deliveries"),
    ];
  }

  /** @param {string} id */
  #test(id) {
    const test = this.#tests.get(id);
    if (!test) return null;
    if (test === "asked") return el("p.testresult", { role: "status" }, icon("waiting"), " Sending a test…");
    return el(
      "p.testresult",
      { role: "status", class: test.ok ? "" : "is-critical" },
      icon(test.ok ? "check" : "critical", test.ok ? "arrived" : "failed"),
      " ",
      el("b", {}, test.ok ? "Test sent. " : "The test failed. "),
      test.detail,
    );
  }

  /** @param {string} id */
  async #try(id) {
    if (this.#tests.get(id) === "asked") return;
    this.#tests.set(id, "asked");
    this.#draw();
    try {
      this.#tests.set(id, await this.app.alerting.testChannel(id));
    } catch (error) {
      this.#tests.set(id, { ok: false, detail: /** @type {Error} */ (error).message });
    }
    this.#draw();
  }

  /** @param {Channel} channel */
  async #switch({ id, name, enabled }) {
    try {
      await this.app.alerting.putChannel({ enabled: !enabled }, id);
      showUndo(`${name} is ${enabled ? "off: nothing is sent to it" : "on"}`, null);
    } catch (error) {
      showUndo(`Not changed: ${/** @type {Error} */ (error).message}`, null);
    }
    void this.load();
  }

  /**
   * Disable now, delete when it can no longer be undone, because deleted secrets cannot be restored.
   *
   * @param {Channel} channel
   */
  async #delete({ id, name, enabled }) {
    const { alerting } = this.app;
    try {
      if (enabled) await alerting.putChannel({ enabled: false }, id);
    } catch (error) {
      return showUndo(`Not deleted: ${/** @type {Error} */ (error).message}`, null);
    }
    this.#gone.add(id);
    this.#draw();
    const back = () => {
      this.#gone.delete(id);
      void (enabled ? alerting.putChannel({ enabled: true }, id) : Promise.resolve()).finally(() =>
        this.load(),
      );
    };
    showUndo(
      `${name} deleted`,
      back,
      () =>
        void alerting.deleteChannel(id).catch((error) => {
          this.#gone.delete(id);
          showUndo(`Not deleted: ${error.message}`, null);
          void this.load();
        }),
    );
  }

  /** @param {string} [kind] */
  #new(kind = "") {
    const done = (/** @type {Channel} */ channel) => {
      showUndo(`${channel.name} created. Press Test to try it.`, null);
      void this.load();
    };
    if (this.#loaded) channelForm(this.app, this.#kinds, null, done, kind);
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    if (event.key !== "n" || !isShortcut(event)) return;
    event.preventDefault();
    this.#new();
  }
}

/** @type {OpenPage} */
export function channelsPage(app, main) {
  const page = new Channels(app, main);
  page.open();
  return page;
}
