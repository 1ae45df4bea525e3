/** Registers the service worker, where the browser has one and the page may use it. */

import { outside } from "../lib/root.js";

/** Return whether this page can use a service worker: not without HTTPS, except on localhost. */
export const hasServiceWorker = () => isSecureContext && "serviceWorker" in navigator;

/** Register the service worker of this site, or update it. Browsers that refuse it show pages as before. */
export async function registerServiceWorker() {
  if (!hasServiceWorker()) return;
  try {
    await navigator.serviceWorker.register(outside("/service-worker.js"), { updateViaCache: "none" });
  } catch (error) {
    console.warn("The service worker was not registered:", error);
  }
}

/**
 * Show a number on the icon of the installed app; browsers that cannot do so ignore it.
 *
 * @param {number} count
 */
export function setBadge(count) {
  if ("setAppBadge" in navigator) void navigator.setAppBadge(count).catch(() => {});
}
