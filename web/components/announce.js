/** Texts for screen readers only. */

import { el, say } from "../browser/dom.js";

/**
 * Announce a short text to screen readers.
 *
 * @param {string} text
 */
export function announce(text) {
  let host = document.getElementById("announcer");
  if (!host) {
    host = el("div.vh", { id: "announcer", role: "status" });
    document.getElementById("floats")?.append(host);
  }
  say(host, text);
}
