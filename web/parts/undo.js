/** After something was done that can be taken back: what, and for a while a button that undoes it. */

import { el } from "../lib/dom.js";
import { icon } from "./icons.js";

const STAYS_MS = 12_000;

/** @param {string} text @param {(() => void) | null} undo null: it only says */
export function told(text, undo) {
  const host = document.getElementById("floats");
  host?.querySelector(".undo")?.remove();
  const away = () => card.remove();
  const card = el("div.undo", { role: "status" }, el("span", {}, text), undo ? el("button.btn", { type: "button", onclick: () => { away(); undo(); } }, "Undo") : null, el("button.btn.bare", { type: "button", "aria-label": "Dismiss", onclick: away }, icon("close")));
  host?.append(card);
  let timer = setTimeout(away, STAYS_MS);
  card.addEventListener("pointerenter", () => clearTimeout(timer));
  card.addEventListener("pointerleave", () => { timer = setTimeout(away, STAYS_MS); });
  card.addEventListener("focusin", () => clearTimeout(timer));
}
