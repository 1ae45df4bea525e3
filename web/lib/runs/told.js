/** What a run's trainer told of itself, as sentences for its page. */

import { TAKEN } from "./eventtext.js";

/** @typedef {{ head: string, message: string, lines: string }} Ending */

const SOURCES = new Map([
  ["clip", "of the script's own clip"],
  ["own", "sampled by the hook"],
  ["local", "sampled by the hook, this rank's part"],
]);

/** @param {unknown} value */
const text = (value) => (typeof value === "string" ? value : "");

/**
 * Why a run failed; null: it did not say. What came over the wire may be anything.
 *
 * @param {unknown} error
 * @returns {Ending | null}
 */
export function endingOf(error) {
  if (!error || typeof error !== "object") return null;
  const { type, message, lines } = /** @type {Record<string, unknown>} */ (error);
  const ending = {
    head: text(type),
    message: text(message),
    lines: Array.isArray(lines) ? lines.map(text).join("\n") : "",
  };
  return ending.head || ending.message || ending.lines ? ending : null;
}

/**
 * Where the primary optimizer's gradient norm comes from, as told last; empty: untold.
 *
 * @param {RunEvent[]} events oldest first
 */
export function normSource(events) {
  const told = events.filter((event) => event.kind === "grad-norm-source" && !event.data.series).at(-1);
  if (!told) return "";
  const { source, clip, taken } = told.data;
  const words = SOURCES.get(text(source)) ?? "";
  const whole = words && typeof clip === "number" ? `${words} at ${clip}` : words;
  return [whole, TAKEN.get(text(taken)) ?? ""].filter(Boolean).join(", ");
}
