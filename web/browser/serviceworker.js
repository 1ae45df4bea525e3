/** Registers the service worker, and shows notifications and a number through it. */

import { outside } from "../lib/root.js";

/** Return whether this page can use a service worker, which requires HTTPS or localhost. */
export const hasServiceWorker = () => isSecureContext && "serviceWorker" in navigator;

/**
 * Register the service worker of this site, or update it. If the browser rejects it, pages work as before.
 *
 * @returns {Promise<ServiceWorkerRegistration | null>}
 */
export async function registerServiceWorker() {
  if (!hasServiceWorker()) return null;
  try {
    return await navigator.serviceWorker.register(outside("/service-worker.js"), { updateViaCache: "none" });
  } catch (error) {
    console.warn("The service worker was not registered:", error);
    return null;
  }
}

/**
 * Call `open` when a notification is clicked while a page is open.
 *
 * @param {(path: string) => void} open
 */
export function onNotificationClick(open) {
  if (!hasServiceWorker()) return;
  navigator.serviceWorker.addEventListener("message", ({ data }) => {
    if (data?.type === "open") open(data.path);
  });
}

/**
 * Show a notification that replaces the one with the same tag, also one that was pushed.
 *
 * @param {string} title
 * @param {string} body
 * @param {string} tag
 * @param {string} path of the page that a click opens
 * @returns {Promise<boolean>} whether the service worker could show it
 */
export async function showNotification(title, body, tag, path) {
  if (!hasServiceWorker()) return false;
  const registration = await navigator.serviceWorker.getRegistration(outside("/"));
  if (!registration?.active) return false;
  const data = { path, at: Date.now() };
  await registration.showNotification(title, { body, tag, icon: outside("/icon-192.png"), data });
  return true;
}

/**
 * Show a number on the icon of the installed app; browsers that cannot do so ignore it.
 *
 * @param {number} count
 */
export function setBadge(count) {
  if ("setAppBadge" in navigator) void navigator.setAppBadge(count).catch(() => {});
}
