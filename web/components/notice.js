/** The layout of every error and empty state: what, why, what to do. */

import { el } from "../browser/dom.js";
import { icon } from "./icons.js";

/**
 * Replaces a page.
 *
 * @param {string} what
 * @param {string} why
 * @param {string | Node} todo
 * @param {...(Node | null)} buttons
 */
export const notice = (what, why, todo, ...buttons) => frame("h1", what, why, todo, buttons);

/**
 * Part of a page that has its own title.
 *
 * @param {string} what
 * @param {string} why
 * @param {string | Node} todo
 * @param {...(Node | null)} buttons
 */
export const inset = (what, why, todo, ...buttons) => frame("h2", what, why, todo, buttons);

/**
 * @param {string} head
 * @param {string} what
 * @param {string} why
 * @param {string | Node} todo
 * @param {(Node | null)[]} buttons
 */
function frame(head, what, why, todo, buttons) {
  return el(
    "section.card.pad.notice",
    { role: "alert" },
    el(head, {}, icon("info"), " ", what),
    why ? el("p.soft", {}, why) : null,
    el("p.soft", {}, todo),
    buttons.length ? el("div.row.then", {}, ...buttons) : null,
  );
}

export function loginNotice() {
  return notice(
    "This browser is not logged in",
    "The server shows runs only to browsers that logged in with its login link.",
    el(
      "span",
      {},
      "Open the link that ",
      el("code", {}, "tocsin-server serve"),
      " printed when it started. To get another one, run ",
      el("code", {}, "tocsin-server token create --scope read"),
      ".",
    ),
  );
}

/**
 * @param {string} text
 * @param {() => void} act
 * @param {string} [shape]
 */
export const button = (text, act, shape) =>
  el("button.btn", { type: "button", onclick: act }, shape ? icon(shape) : null, text);
