/** Notifications of the browser channel, by the browser's own means: where its person allowed it. */

import { powers } from "../../lib/format.js";
import { Notifier } from "../../data/notifier.js";
import { outside } from "../../lib/root.js";
import { go } from "../../browser/navigate.js";
import { runAddress } from "../../lib/route.js";

/** What this browser says about notifications: granted, denied, default (not asked yet) or unsupported. */
export const permission = () => ("Notification" in globalThis ? Notification.permission : "unsupported");

/**
 * @param {string} title
 * @param {string} body
 * @param {string} tag of the same tag one is shown
 * @param {string} address
 */
export function show(title, body, tag, address) {
  const shown = new Notification(title, { body, tag, icon: outside("/icon.svg") });
  shown.onclick = () => {
    window.focus();
    go(address);
    shown.close();
  };
}

/** @param {BrowserNote} note */
export function words(note) {
  const [first] = note.alerts;
  const run = note.runs?.[0];
  const body =
    note.alerts
      .map((alert) => `${alert.over ? "over: " : ""}${powers(alert.summary)}`)
      .slice(0, 3)
      .join("\n") || (run ? `${run.run_name} failed` : "");
  return {
    body,
    address: first
      ? runAddress(first.run_id, { at: first.onset_step, alert: first.id })
      : run
        ? runAddress(run.run_id)
        : "/alerts",
  };
}

/** @param {App} app */
export function notify({ desk, live }) {
  let storage = null;
  try {
    storage = localStorage;
  } catch {
    /* for this page only, then */
  }
  const notifier = new Notifier(desk, { permission, show }, storage, words);
  const catchUp = (/** @type {boolean} */ again) => void notifier.catchUp(again).catch(() => {});
  live.onWord("notification", ({ note }) => notifier.hear(note));
  live.onReconnect(() => catchUp(true));
  catchUp(false);
}
