/** A floating strip: the server cannot store records (full disk, database unavailable). */

import { el, say } from "../../browser/dom.js";
import { withoutEnd } from "../../lib/format.js";
import { icon } from "../icons.js";

/**
 * Return what to show while the database fails.
 *
 * @param {string} failing the database's error message
 */
export const storingText = (failing) =>
  `The server cannot store new records: ${withoutEnd(failing, ". \n")}. ` +
  "Training continues; records are buffered on disk until it can.";

/**
 * The state is unknown while the page is offline, so the strip hides until the next heartbeat.
 *
 * @param {HTMLElement} host
 * @param {import("../../data/live.js").Live} live
 */
export function storingStrip(host, live) {
  const text = el("span.grow");
  const strip = el("div.storing", { role: "alert", hidden: true }, icon("critical"), text);
  host.append(strip);
  live.onBeat(({ failing }) => {
    strip.hidden = !failing;
    if (failing) say(text, storingText(failing));
  });
  live.onState(({ online }) => {
    if (!online) strip.hidden = true;
  });
}
