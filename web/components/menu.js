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
  /** Keys pressed since the button was, while the items load. */
  let early = /** @type {string[] | null} */ (null);
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
    if (early) return;
    closeOpen?.();
    /** @type {string[]} */
    const pressed = [];
    const cancel = () => {
      early = null;
      if (closeOpen === cancel) closeOpen = null;
    };
    early = pressed;
    closeOpen = cancel;
    try {
      const shown = await items();
      if (early === pressed) show(shown, pressed);
    } finally {
      if (early === pressed) cancel();
    }
  }

  /**
   * @param {Item[]} shown
   * @param {string[]} pressed keys that the reader pressed while the items were loaded
   */
  function show(shown, pressed) {
    draw(shown);
    list.hidden = false;
    list.classList.remove("from-left");
    list.classList.toggle("from-left", list.getBoundingClientRect().left < 0);
    button.setAttribute("aria-expanded", "true");
    closeOpen = () => close(false);
    early = null;
    focusIn(list, "button");
    for (const name of pressed) if (!list.hidden) act(name);
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
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Tab") return closeOpen?.();
    if (early) {
      if (event.key === "Escape") closeOpen?.();
      else early.push(event.key);
    } else if (list.hidden || isPress(event.key) || !act(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * @param {string} name of a key
   * @returns {boolean} whether the open menu has a use for it
   */
  function act(name) {
    const all = /** @type {HTMLElement[]} */ ([...list.querySelectorAll("button")]);
    const now = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const next = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: all.length - 1 }[name];
    if (name === "Escape") close();
    else if (isPress(name)) all[now]?.click();
    else if (next !== undefined) all[(next + all.length) % all.length]?.focus();
    else return false;
    return true;
  }
  return node;
}

/** @param {string} key */
const isPress = (key) => key === "Enter" || key === " ";

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
