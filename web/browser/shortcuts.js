/**
 * Keys that a page understands as commands.
 */

const FIELDS = "input:not([type=checkbox]), textarea, select, [contenteditable]";

/**
 * Return whether the user types into a field.
 *
 * @param {KeyboardEvent} event
 */
export const isTyping = (event) => event.target instanceof Element && event.target.closest(FIELDS) !== null;

/**
 * Return whether a key may be a page's shortcut: without Ctrl, Alt or Meta, outside of fields and menus, and
 * while no dialog is open.
 *
 * @param {KeyboardEvent} event
 */
export const isShortcut = (event) => isPlain(event) && !isTyping(event);

/**
 * Return the same for keys that also act on a field, such as Escape.
 *
 * @param {KeyboardEvent} event
 */
export const isPlain = (event) =>
  !(event.ctrlKey || event.metaKey || event.altKey) &&
  !document.querySelector("dialog[open]") &&
  !(event.target instanceof Element && event.target.closest("[role=menu]"));
