/**
 * What this browser remembers of its person: pins. A browser that keeps nothing still works until it is
 * closed.
 */

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
    /* full, or private: the page goes on without */
  }
}
