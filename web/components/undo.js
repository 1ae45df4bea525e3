/** A message after an action, with an Undo button for a while; and one about a part that did not load. */

import { el } from "../browser/dom.js";
import { icon } from "./icons.js";

const STAYS_MS = 12_000;
/**
 * Completes the action of the current message.
 *
 * @type {(() => void) | null}
 */
let settle = null;
addEventListener("pagehide", () => settle?.());

/**
 * @param {string} text
 * @param {(() => void) | null} undo null: no Undo button
 * @param {(() => void) | null} [gone] called once the action can no longer be undone: the message closed, was
 *   replaced, or the page is left
 */
export function showUndo(text, undo, gone = null) {
  const host = document.getElementById("floats");
  settle?.();
  host?.querySelector(".undo")?.remove();
  const away = () => {
    card.remove();
    clearTimeout(timer);
    if (settle === done) done();
  };
  const done = () => {
    settle = null;
    gone?.();
  };
  const card = el(
    "div.undo",
    { role: "status" },
    el("span", {}, text),
    undo
      ? el(
          "button.btn",
          {
            type: "button",
            onclick: () => {
              settle = null;
              away();
              undo();
            },
          },
          "Undo",
        )
      : null,
    el("button.btn.bare", { type: "button", "aria-label": "Dismiss", onclick: away }, icon("close")),
  );
  settle = done;
  host?.append(card);
  let timer = setTimeout(away, STAYS_MS);
  card.addEventListener("pointerenter", () => clearTimeout(timer));
  card.addEventListener("pointerleave", () => {
    timer = setTimeout(away, STAYS_MS);
  });
  card.addEventListener("focusin", () => clearTimeout(timer));
}

/** Say that a part of the page which is loaded when it is first used did not load. */
export function notLoaded() {
  showUndo("This part of the page could not be loaded. Check the connection, then reload the page.", null);
}
