/** Web push: what keeps a browser from subscribing, how it is named, and the form of its keys. */

/**
 * @typedef {{ secure: boolean, supported: boolean, permission: string, homeScreenOnly: boolean }} Environment
 *   `homeScreenOnly`: on an iPhone or iPad, outside an app of the home screen
 */

/**
 * Return why this browser cannot subscribe and what to do, or "" if it can.
 *
 * @param {Environment} environment
 */
export function obstacle({ secure, supported, permission, homeScreenOnly }) {
  if (!secure) return "Web push needs HTTPS or localhost. Open tocsin at an https:// address.";
  if (homeScreenOnly) {
    return "On iPhone and iPad (iOS 16.4+), select Share, then Add to Home Screen. Open tocsin there.";
  }
  if (!supported) return "This browser does not support web push. Use another browser.";
  if (permission === "denied") {
    return "Notifications are blocked for this address. Allow them in the browser's site settings.";
  }
  return "";
}

/** The first that a user agent names; browsers name those that they are compatible with, too. */
const BROWSERS = /** @type {const} */ ([
  ["Edg", "Edge"],
  ["OPR/", "Opera"],
  ["SamsungBrowser/", "Samsung Internet"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
]);
const SYSTEMS = /** @type {const} */ ([
  ["iPhone", "iPhone"],
  ["iPad", "iPad"],
  ["Android", "Android"],
  ["Windows", "Windows"],
  ["Mac OS", "Mac"],
  ["X11", "Linux"],
]);

/**
 * Return a name such as "Chrome on Android".
 *
 * @param {string} userAgent
 */
export function browserName(userAgent) {
  const first = (/** @type {typeof BROWSERS | typeof SYSTEMS} */ names, /** @type {string} */ none) =>
    names.find(([mark]) => userAgent.includes(mark))?.[1] ?? none;
  return `${first(BROWSERS, "Browser")} on ${first(SYSTEMS, "an unknown system")}`;
}

/**
 * Return bytes as base64url without padding, as the server names its key.
 *
 * @param {ArrayBuffer | null | undefined} bytes
 */
export function base64url(bytes) {
  const text = String.fromCharCode(...new Uint8Array(bytes ?? new ArrayBuffer(0)));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
