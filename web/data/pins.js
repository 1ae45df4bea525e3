/** Pinned runs, stored in this browser. If storage is unavailable, pins last until the page is closed. */

const KEY = "tocsin.pins";
const MOST = 200;

/**
 * @param {Pick<Storage, "getItem">} storage
 * @returns {Set<string>}
 */
export function readPins(storage) {
  try {
    const kept = JSON.parse(storage.getItem(KEY) ?? "[]");
    return new Set(Array.isArray(kept) ? kept.filter((each) => typeof each === "string").slice(-MOST) : []);
  } catch {
    return new Set();
  }
}

/**
 * @param {Pick<Storage, "setItem">} storage
 * @param {Set<string>} pins
 */
export function writePins(storage, pins) {
  try {
    storage.setItem(KEY, JSON.stringify([...pins].slice(-MOST)));
  } catch {
    /* storage is full or blocked: continue without it */
  }
}
