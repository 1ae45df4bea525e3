/**
 * Settings: what this browser keeps for itself: theme, sound, notifications.
 *
 * Data: browser/theme.js and browser/sound.js, in the browser's storage; webpush.js.
 */

import { el, refill } from "../../browser/dom.js";
import { playAlert, setSound, soundOn } from "../../browser/sound.js";
import { chooseTheme, theme } from "../../browser/theme.js";
import { moment } from "../../lib/format.js";
import { segments } from "../filterbar.js";
import { permission, show } from "../header/notify.js";
import { WebPush } from "./webpush.js";

const PERMISSIONS = /** @type {Record<string, string>} */ ({
  granted: "Allowed: open pages show the notifications of browser channels.",
  denied: "Blocked for this address. You can change that in the browser's site settings.",
  default: "Not asked yet.",
  unsupported: "Not supported: this browser has no notifications, or the page needs https or localhost.",
});

const WORDS = /** @type {Record<string, string>} */ ({ granted: "allowed", denied: "blocked", default: "" });

export class ThisBrowser {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.node = el("div");
    this.push = new WebPush(app);
  }

  show() {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    const row = (/** @type {string} */ head, /** @type {import("../../browser/dom.js").Kid[]} */ ...kids) =>
      el("div", {}, el("dt", {}, head), el("dd", {}, ...kids));
    refill(
      this.node,
      el(
        "dl.pairs",
        {},
        row("Theme", this.#themeChoice()),
        row("Sound", ...this.#soundChoice()),
        row("Notifications", ...this.#notificationChoice()),
        el("div", {}, el("dt", {}, "Web push"), this.push.node),
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
        chooseTheme(/** @type {import("../../browser/theme.js").Theme} */ (key));
        dispatchEvent(new Event("themechosen"));
        this.show();
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
              this.show();
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
        el("span", { "data-permission": now }, WORDS[now] ?? now),
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
    this.show();
  }
}
