/**
 * Says that the server cannot store: a full disk, a database that is away. It floats: nothing moves when it
 * comes or goes.
 */

import { el, say } from "../../browser/dom.js";
import { withoutEnd } from "../../lib/format.js";
import { icon } from "../icons.js";

/**
 * What a person reads while the database fails.
 *
 * @param {string} failing the database's own words
 */
export const storingText = (failing) =>
  `The server cannot store new records: ${withoutEnd(failing, ". \n")}. Training continues; records are buffered on disk until it can.`;

/**
 * Of a page that is offline nothing is known: the strip goes until the next beat.
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
