/** Theme: light, dark, or the system's; stored in this browser. Charts follow the event "themechange". */

const KEY = "tocsin.theme";
const ORDER = /** @type {const} */ (["system", "light", "dark"]);
/** @typedef {"system" | "light" | "dark"} Theme */

/** @returns {Theme} */
export function theme() {
  const kept = document.documentElement.dataset.theme;
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** @returns {Theme} the next theme, now applied */
export function nextTheme() {
  return chooseTheme(ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length]);
}

/**
 * @param {Theme} chosen
 * @returns {Theme} the theme
 */
export function chooseTheme(chosen) {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    /* storage is blocked; the theme still applies */
  }
  dispatchEvent(new Event("themechange"));
  return chosen;
}

/** Changes of the system's theme are theme changes too. */
export function followSystem() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    dispatchEvent(new Event("themechange")),
  );
}
