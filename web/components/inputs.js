/** Inputs, with the attributes that all have. */

import { el } from "../browser/dom.js";

/**
 * @param {string} text
 * @returns {HTMLInputElement}
 */
export const textInput = (text = "", props = {}) => {
  const node = /** @type {HTMLInputElement} */ (
    el("input.plain", { spellcheck: "false", autocomplete: "off", ...props })
  );
  node.value = text;
  return node;
};
/**
 * @param {string} text
 * @param {Record<string, unknown>} [props]
 * @returns {HTMLTextAreaElement}
 */
export const textArea = (text = "", props = {}) => {
  const node = /** @type {HTMLTextAreaElement} */ (
    el("textarea.plain", { spellcheck: "false", rows: "2", ...props })
  );
  node.value = text;
  return node;
};
/**
 * @param {readonly (readonly [string, string])[]} choices value and text
 * @param {string} chosen
 * @param {Record<string, unknown>} [props]
 * @returns {HTMLSelectElement}
 */
export const selectInput = (choices, chosen, props = {}) => {
  const node = /** @type {HTMLSelectElement} */ (
    el("select", props, ...choices.map(([value, text]) => el("option", { value }, text)))
  );
  node.value = chosen;
  return node;
};
/**
 * @param {string} text
 * @param {boolean} on
 * @param {Record<string, unknown>} [props]
 * @returns {{ node: HTMLElement, input: HTMLInputElement }}
 */
export function checkbox(text, on, props = {}) {
  const input = /** @type {HTMLInputElement} */ (el("input", { type: "checkbox", ...props }));
  input.checked = on;
  return { node: el("label.check", {}, input, el("span", {}, text)), input };
}
