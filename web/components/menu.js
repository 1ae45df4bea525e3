/**
 * A button with a menu: arrow keys move, Escape closes, focus returns to the button. An open menu shows its
 * items again at the event `itemschange`.
 */

import { el, focusIn, refill } from "../browser/dom.js";
import { icon } from "./icons.js";
import { notLoaded } from "./undo.js";

/**
 * @typedef {{ text: string, hint?: string, act: () => void, on?: boolean, alone?: boolean, off?: boolean }
 *   | { head: string }} Item
 *   on: whether a choice is selected; alone: it is on or off by itself; off: it can't be chosen, and the hint
 *   says why
 */

/** @type {(() => void) | null} closes the open menu; at most one is open */
let closeOpen = null;
addEventListener("pointerdown", (event) => {
  if (closeOpen && !(/** @type {Element} */ (event.target).closest?.(".menu"))) closeOpen();
});
addEventListener("pagechange", () => closeOpen?.());

/**
 * @param {string} label
 * @param {() => Item[] | Promise<Item[]>} items called each time it opens, and at `itemschange`
 * @param {{ text?: string, shape?: string }} [o]
 */
export function menu(label, items, o = {}) {
  const list = el("div.menulist", { role: "menu", "aria-label": label, hidden: true });
  const button = el(
    "button.btn.bare.menubutton",
    {
      type: "button",
      "aria-haspopup": "menu",
      "aria-expanded": "false",
      "aria-label": o.text ? null : label,
      title: label,
      onclick: () => (list.hidden ? void open().catch(notLoaded) : close()),
    },
    icon(o.shape ?? "more"),
    o.text ?? null,
  );
  const node = el(
    "div.menu",
    { onkeydown: (/** @type {KeyboardEvent} */ event) => key(event) },
    button,
    list,
  );

  node.addEventListener("itemschange", async () => {
    if (list.hidden) return;
    const now = await items();
    const text = document.activeElement?.textContent;
    draw(now);
    const buttons = [...list.querySelectorAll("button")];
    (buttons.find((each) => each.textContent === text) ?? buttons[0])?.focus();
  });

  /** @param {Item[]} shown */
  function draw(shown) {
    refill(
      list,
      ...shown.map((item) =>
        "head" in item ? el("div.micro.menuhead", { role: "presentation" }, item.head) : choice(item, close),
      ),
    );
  }

  async function open() {
    const shown = await items();
    closeOpen?.();
    draw(shown);
    list.hidden = false;
    list.classList.remove("from-left");
    list.classList.toggle("from-left", list.getBoundingClientRect().left < 0);
    button.setAttribute("aria-expanded", "true");
    closeOpen = () => close(false);
    focusIn(list, "button");
  }

  /** @param {boolean} [back] */
  function close(back = true) {
    list.hidden = true;
    button.setAttribute("aria-expanded", "false");
    closeOpen = null;
    if (back) button.focus();
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    if (list.hidden) return;
    const all = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("button")]);
    const now = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const next = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape") close();
    else if (event.key === "Tab") return close(false);
    else if (next !== undefined) all[(next + all.length) % all.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
  return node;
}

/**
 * @param {Exclude<Item, { head: string }>} item
 * @param {() => void} close
 */
function choice(item, close) {
  const role =
    item.on === undefined
      ? { role: "menuitem" }
      : { role: item.alone ? "menuitemcheckbox" : "menuitemradio", "aria-checked": String(item.on) };
  return el(
    "button",
    {
      type: "button",
      tabindex: "-1",
      ...role,
      "aria-disabled": item.off ? "true" : null,
      onclick: () => {
        if (item.off) return;
        close();
        item.act();
      },
    },
    el("span.tick", {}, item.on ? icon("check") : null),
    el("span.grow", {}, item.text),
    item.hint ? el(item.off ? "span.micro" : "kbd", {}, item.hint) : null,
  );
}
