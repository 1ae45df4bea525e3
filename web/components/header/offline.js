/** A floating strip: the page is offline, since when, and when it tries again. */

import { el, say } from "../../browser/dom.js";
import { clock as clockTime } from "../../lib/format.js";
import { icon } from "../icons.js";

/**
 * @param {import("../../data/live.js").LiveState} state
 * @param {number} now
 */
function offlineText(state, now) {
  if (state.refused) return "The server rejected this browser's login. Open the login link again.";
  const lastReceived =
    state.received_ms === null
      ? "No connection to the server yet"
      : `Offline since ${clockTime(state.received_ms)}`;
  return state.retry_ms !== null && state.retry_ms > now
    ? `${lastReceived}, retrying in ${Math.ceil((state.retry_ms - now) / 1000)} s`
    : `${lastReceived}, trying now`;
}

/**
 * @param {HTMLElement} host
 * @param {import("../../data/live.js").Live} live
 * @param {import("../../data/clock.js").Clock} clock
 */
export function offlineStrip(host, live, clock) {
  const text = el("span.grow");
  const strip = el(
    "div.offline",
    { role: "status", hidden: true },
    icon("offline"),
    text,
    el("button.btn", { type: "button", onclick: () => live.hurry() }, "Try now"),
  );
  host.append(strip);
  const started = clock.local();
  const write = () => {
    const { state } = live;
    const fresh = state.received_ms === null && clock.local() - started < 1500;
    const off = !state.online && !fresh;
    strip.hidden = !off;
    document.documentElement.classList.toggle("is-offline", off);
    if (off) say(text, offlineText(state, clock.local()));
  };
  live.onState(write);
  setInterval(write, 1000);
}
