/**
 * The only way to create elements. Text is inserted only as text nodes and attributes, so a run named "<img
 * onerror=…>" is shown, not executed.
 */

import { outside } from "../lib/root.js";

/** @typedef {Node | string | number | null | undefined | false} Kid */

const SVG = "http://www.w3.org/2000/svg";
/** Attributes that a browser may follow or run: only relative and web addresses are accepted. */
const ADDRESSES = new Set(["href", "src", "action", "formaction"]);

/**
 * Return whether `address` is safe to follow: relative, http, https, blob or mailto.
 *
 * @param {string} address
 */
export const safeAddress = (address) =>
  !/^[\s\u0000-\u001f]*[a-z][a-z0-9+.-]*:/i.test(address) || /^(https?|blob|mailto):/i.test(address);

/**
 * @param {Element} node
 * @param {string} name
 * @param {unknown} value
 */
function set(node, name, value) {
  if (value === false || value === null || value === undefined) return;
  if (name.startsWith("on")) node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
  else if (name === "class") node.classList.add(...String(value).split(/\s+/).filter(Boolean));
  else if (name.startsWith("--")) /** @type {HTMLElement} */ (node).style.setProperty(name, String(value));
  else if (ADDRESSES.has(name) && !safeAddress(String(value))) return;
  else if (ADDRESSES.has(name)) node.setAttribute(name, outside(String(value)));
  else node.setAttribute(name, value === true ? "" : String(value));
}

/**
 * @param {Element} node
 * @param {Kid[]} kids
 */
function fill(node, kids) {
  for (const kid of kids) {
    if (kid !== null && kid !== undefined && kid !== false) {
      node.append(typeof kid === "number" ? String(kid) : kid);
    }
  }
}

/**
 * @param {string} tag "div.card.tight"
 * @param {Record<string, unknown>} [props]
 * @param {...Kid} kids
 * @returns {HTMLElement}
 */
export function el(tag, props = {}, ...kids) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name || "div");
  if (classes.length) node.classList.add(...classes);
  for (const [key, value] of Object.entries(props)) set(node, key, value);
  fill(node, kids);
  return node;
}

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [props]
 * @param {...Kid} kids
 * @returns {SVGElement}
 */
export function svg(tag, props = {}, ...kids) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(props)) set(node, key, value);
  fill(node, kids);
  return node;
}

/**
 * Replace the text of a node only if it differs, so that live pages don't flicker or lose a selection.
 *
 * @param {Node} node
 * @param {string} text
 */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * @param {Element} node
 * @param {...Kid} kids
 */
export function refill(node, ...kids) {
  node.replaceChildren();
  fill(node, kids);
}

/**
 * Focus the first element in `host` that matches, if there is one.
 *
 * @param {Element} host
 * @param {string} selector
 * @param {FocusOptions} [options]
 */
export function focusIn(host, selector, options) {
  const found = host.querySelector(selector);
  if (found instanceof HTMLElement) found.focus(options);
}

/**
 * Observe sizes; `act` runs in the next frame. If it changed a size that is observed within the same frame,
 * the browser would report an error.
 *
 * @param {(entries: ResizeObserverEntry[]) => void} act
 */
export const sizeObserver = (act) =>
  new ResizeObserver((entries) => requestAnimationFrame(() => act(entries)));
