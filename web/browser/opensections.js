/** Sections of the run page that are collapsed at first and that this browser keeps open. */

const KEY = "tocsin.open-sections";
const MOST = 20;

/** @returns {string[]} */
export function readOpen() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((each) => typeof each === "string").slice(0, MOST) : [];
  } catch {
    return []; // storage is off, or the value is not ours
  }
}

/** @param {string[]} keys */
export function writeOpen(keys) {
  try {
    localStorage.setItem(KEY, JSON.stringify(keys.slice(0, MOST)));
  } catch {
    /* it lasts until the page is closed */
  }
}
