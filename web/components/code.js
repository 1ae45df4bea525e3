/** A code block with a copy button. */

import { el, say } from "../browser/dom.js";
import { isCommand, pieces } from "../lib/highlight.js";
import { icon } from "./icons.js";

/** The caption of commands. */
export const TERMINAL = "Terminal";

/**
 * A button that copies `text` and confirms it.
 *
 * @param {string} label
 * @param {() => string | Promise<string>} text
 */
export function copyButton(label, text) {
  const word = el("span", {}, label);
  const node = el("button.btn.bare", { type: "button", onclick: copy }, icon("copy"), word);
  async function copy() {
    say(word, (await toClipboard(await text())) ? "Copied" : "Select and copy manually");
    setTimeout(() => say(word, label), 2000);
  }
  return node;
}

/**
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {string} caption
 * @param {string} code
 * @param {Node} [action] replaces the copy button
 */
export function codeBlock(caption, code, action) {
  return el(
    "div.code",
    {},
    el("div.cap", {}, el("span", {}, caption), action ?? copyButton("Copy", () => code)),
    el("pre", { tabindex: "0" }, ...colored(code, caption === TERMINAL || isCommand(code))),
  );
}

/**
 * @param {string} code
 * @param {boolean} shell
 * @returns {Node[]}
 */
const colored = (code, shell) =>
  pieces(code, shell).map(({ kind, text }) =>
    kind ? el(`span.tok-${kind}`, {}, text) : document.createTextNode(text),
  );
