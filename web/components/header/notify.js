/** Shows notifications of the browser channel, if the user allowed them. */

import { go } from "../../browser/navigate.js";
import { currentSubscription, described, subscribe } from "../../browser/push.js";
import { onNotificationClick, showNotification } from "../../browser/serviceworker.js";
import { Notifier } from "../../data/notifier.js";
import { isWithdrawn } from "../../lib/alerts/attention.js";
import { powers } from "../../lib/format.js";
import { outside } from "../../lib/root.js";
import { alertAddress } from "../../lib/route.js";

/** The browser's permission for notifications: granted, denied, default (not asked yet) or unsupported. */
export const permission = () => ("Notification" in globalThis ? Notification.permission : "unsupported");

/**
 * @param {string} title
 * @param {string} body
 * @param {string} tag notifications with the same tag replace each other
 * @param {string} address
 */
export async function show(title, body, tag, address) {
  if (await showNotification(title, body, tag, address).catch(() => false)) return;
  const shown = new Notification(title, { body, tag, icon: outside("/icon.svg") });
  shown.onclick = () => {
    window.focus();
    go(address);
    shown.close();
  };
}

/** @param {BrowserNote} note */
function words(note) {
  const [first] = note.alerts;
  const state = (/** @type {BrowserNote["alerts"][number]} */ alert) =>
    !alert.over || isWithdrawn(alert) ? "" : alert.state === "ended" ? "run ended: " : "resolved: ";
  return {
    body: note.alerts
      .map((alert) => `${state(alert)}${powers(alert.summary)}`)
      .slice(0, 3)
      .join("\n"),
    address: first ? alertAddress(first) : "/alerts",
    tag: first && note.alerts.every(({ incident }) => incident === first.incident) ? first.incident : "",
  };
}

/**
 * Tell the server that this browser is still subscribed to web push, with the present login and key.
 *
 * @param {App["alerting"]} alerting
 */
async function confirmSubscription(alerting) {
  if (permission() !== "granted" || !(await currentSubscription())) return;
  const { key } = await alerting.push();
  await alerting.putSubscription(described(await subscribe(key)));
}

/** @param {App} app */
export function notify({ alerting, live }) {
  onNotificationClick(go);
  void confirmSubscription(alerting).catch(() => {});
  let storage = null;
  try {
    storage = localStorage;
  } catch {
    /* then it holds for this page only */
  }
  const notifier = new Notifier(alerting, { permission, show }, storage, words);
  const catchUp = (/** @type {boolean} */ again) => void notifier.catchUp(again).catch(() => {});
  live.onMessage("notification", ({ note }) => notifier.receive(note));
  live.onReconnect(() => catchUp(true));
  catchUp(false);
}
