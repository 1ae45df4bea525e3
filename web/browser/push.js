/** This browser's subscription to web push. */

import { base64url, browserName } from "../lib/push.js";
import { outside } from "../lib/root.js";
import { hasServiceWorker, registerServiceWorker } from "./serviceworker.js";

/** @returns {import("../lib/push.js").Environment} */
export function environment() {
  const { userAgent, maxTouchPoints } = navigator;
  const tablet = userAgent.includes("Macintosh") && maxTouchPoints > 1; // an iPad calls itself a Mac
  const apple = ["iPhone", "iPad", "iPod"].some((each) => userAgent.includes(each)) || tablet;
  const installed = matchMedia("(display-mode: standalone)").matches;
  return {
    secure: isSecureContext,
    supported: hasServiceWorker() && "PushManager" in globalThis && "Notification" in globalThis,
    permission: "Notification" in globalThis ? Notification.permission : "denied",
    homeScreenOnly: apple && !installed,
  };
}

/** @returns {Promise<PushSubscription | null>} */
export async function currentSubscription() {
  if (!hasServiceWorker()) return null;
  const registration = await navigator.serviceWorker.getRegistration(outside("/"));
  return (await registration?.pushManager?.getSubscription()) ?? null;
}

/**
 * Subscribe this browser with the server's key, after asking for permission. Replace a subscription with
 * another key.
 *
 * @param {string} key
 * @returns {Promise<PushSubscription>}
 */
export async function subscribe(key) {
  const permission = await Notification.requestPermission();
  if (permission !== "granted") {
    throw new Error("Notifications were not allowed. Select Subscribe again and allow them.");
  }
  const known = await currentSubscription();
  if (known && base64url(known.options.applicationServerKey) === key) return known;
  await known?.unsubscribe();
  const registration = await activeRegistration();
  return registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
}

/**
 * What the server stores about a subscription.
 *
 * @param {PushSubscription} subscription
 */
export function described(subscription) {
  const { endpoint, keys } = subscription.toJSON();
  return { endpoint, keys, name: browserName(navigator.userAgent) };
}

async function activeRegistration() {
  const registration = await registerServiceWorker();
  if (!registration) throw new Error("The service worker could not be started. Reload the page.");
  const worker = registration.installing ?? registration.waiting;
  if (!registration.active && worker) {
    await new Promise((done) => worker.addEventListener("statechange", done, { once: true }));
    if (!registration.active) return activeRegistration();
  }
  return registration;
}
