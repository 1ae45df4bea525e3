/**
 * Light, dark, or as the system says; remembered in this browser. Charts hear of a change by the event
 * "themechange".
 */

const KEY = "tocsin.theme";
const ORDER = /** @type {const} */ (["system", "light", "dark"]);
/** @typedef {"system" | "light" | "dark"} Theme */

/** @returns {Theme} */
export function theme() {
  const kept = document.documentElement.dataset.theme;
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** @returns {Theme} the next one, now on */
export function nextTheme() {
  return chooseTheme(ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length]);
}

/**
 * @param {Theme} chosen
 * @returns {Theme} it
 */
export function chooseTheme(chosen) {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    /* a browser that keeps nothing still has a theme */
  }
  dispatchEvent(new Event("themechange"));
  return chosen;
}

/** The system's own changes are changes of theme too. */
export function followSystem() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    dispatchEvent(new Event("themechange")),
  );
}
