/** The keys that work everywhere, and the dialogs behind Ctrl K and ?, which are loaded when first opened. */

import { go } from "../../browser/navigate.js";
import { isShortcut } from "../../browser/shortcuts.js";
import { nextTheme } from "../../browser/theme.js";
import { notLoaded } from "../undo.js";

/**
 * The key after G and the page it opens.
 *
 * @type {Record<string, string>}
 */
const PLACES = {
  f: "/",
  c: "/compare",
  a: "/alerts",
  r: "/rules",
  s: "/settings",
  l: "/silences",
  o: "/routes",
  h: "/channels",
  d: "/deliveries",
};
/** What pages load when it is first used is loaded after this time, to work while the server is away. */
const AHEAD_MS = 5_000;

/** @param {App} app */
export function finder(app) {
  setTimeout(() => void import("./palette.js").catch(() => {}), AHEAD_MS);
  /** Typed after Ctrl K before the palette is open: no shortcuts. */
  let typed = /** @type {string | null} */ (null);
  const open = () => {
    typed ??= "";
    import("./palette.js")
      .then(({ openPalette }) => void openPalette(app, typed ?? ""), notLoaded)
      .finally(() => (typed = null));
  };
  const shortcuts = () => void import("./palette.js").then(({ showShortcuts }) => showShortcuts(), notLoaded);
  let waiting = -Infinity; // 0 is the time the page was opened, so the first letters would navigate away
  document.addEventListener(
    "keydown",
    (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open();
        return;
      }
      if (!isShortcut(event)) return;
      if (typed !== null) {
        if (event.key.length === 1) typed += event.key;
        if (event.key === "Backspace") typed = typed.slice(0, -1);
        event.stopImmediatePropagation();
        event.preventDefault();
        return;
      }
      const gone = event.timeStamp - waiting > 1200;
      const place = PLACES[event.key];
      if (!gone && place) {
        waiting = -Infinity;
        go(place);
        event.stopImmediatePropagation();
        event.preventDefault();
      } else if (event.key === "g") waiting = event.timeStamp;
      else if (event.key === "t") {
        nextTheme();
        dispatchEvent(new Event("themechosen"));
      } else if (event.key === "?") {
        event.preventDefault();
        shortcuts();
      }
    },
    true,
  );
  return { open, shortcuts };
}
