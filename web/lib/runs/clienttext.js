/** Describes what the training process reported about itself, for the run page. */

import { short } from "../format.js";
import { MEASURED } from "./eventtext.js";

/** @typedef {{ head: string, message: string, lines: string }} Ending */

const SOURCES = new Map([
  ["clip", "from the script's clipping"],
  ["own", "sampled by the hook"],
  ["local", "sampled by the hook, this rank's part"],
]);

/** @param {unknown} value */
const text = (value) => (typeof value === "string" ? value : "");

/**
 * Return why a run failed, or null if not reported. The data may be malformed.
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
 * Return where the primary optimizer's gradient norm comes from, as last reported; "" if unknown.
 *
 * @param {RunEvent[]} events oldest first
 */
export function normSource(events) {
  const latest = events.filter((event) => event.kind === "grad-norm-source" && !event.data.series).at(-1);
  if (!latest) return "";
  const { source, clip, taken } = latest.data;
  const words = SOURCES.get(text(source)) ?? "";
  const whole = words && typeof clip === "number" ? `${words} at ${short(clip)}` : words;
  return [whole, MEASURED.get(text(taken)) ?? ""].filter(Boolean).join(", ");
}
