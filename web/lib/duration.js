/** Parsing durations that users type, and the ends of silences. */

/** @type {Record<string, number>} */
const SECONDS = { s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86_400, w: 604_800 };

/**
 * "90", "90 s", "5 min", "1 h 30 min".
 *
 * @param {string} text
 * @returns {number | null} seconds, or null if it cannot be parsed
 */
export function secondsOf(text) {
  const clean = text.trim().toLowerCase();
  if (/^\d+(\.\d+)?$/.test(clean)) return Number(clean);
  if (!/^(\d+(\.\d+)?\s*[a-z]+\s*)+$/.test(clean)) return null;
  let sum = 0;
  for (const [, number, unit] of clean.matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+)/g)) {
    if (!Object.hasOwn(SECONDS, unit)) return null;
    sum += Number(number) * SECONDS[unit];
  }
  return sum;
}

/**
 * Return the shortest exact form.
 *
 * @param {number} s
 */
export function durationText(s) {
  const parts = /** @type {[string, number][]} */ ([
    ["d", 86_400],
    ["h", 3600],
    ["min", 60],
  ]);
  const out = [];
  for (const [unit, size] of parts) {
    const n = Math.floor(s / size);
    if (n) out.push(`${n} ${unit}`);
    s -= n * size;
  }
  if (s || !out.length) out.push(`${Number(s.toFixed(3))} s`);
  return out.join(" ");
}

/**
 * Choices for the end of a silence, in the user's time zone.
 *
 * @type {readonly { key: string, text: string, at: (now: Date) => Date }[]}
 */
export const ENDS = [
  { key: "30m", text: "30 min", at: (now) => after(now, 30) },
  { key: "2h", text: "2 h", at: (now) => after(now, 120) },
  { key: "8h", text: "8 h", at: (now) => after(now, 480) },
  { key: "morning", text: "9:00", at: (now) => nextMorning(now) },
  { key: "monday", text: "Monday 9:00", at: (now) => nextMonday(now) },
  { key: "7d", text: "7 d", at: (now) => after(now, 7 * 1440) },
];

/**
 * @param {Date} now
 * @param {number} minutes
 */
const after = (now, minutes) => new Date(now.getTime() + minutes * 60_000);

/**
 * The next 9:00.
 *
 * @param {Date} now
 */
function nextMorning(now) {
  const at = new Date(now.getFullYear(), now.getMonth(), now.getDate(), 9);
  return at > now ? at : new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1, 9);
}

/** @param {Date} now */
function nextMonday(now) {
  const days = (8 - now.getDay()) % 7;
  const at = new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, 9);
  return at > now ? at : new Date(at.getFullYear(), at.getMonth(), at.getDate() + 7, 9);
}

/**
 * Format for an input of type datetime-local.
 *
 * @param {number} ms
 */
export function localText(ms) {
  const at = new Date(ms);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/**
 * @param {string} text value of an input of type datetime-local
 * @returns {number | null} Unix ms
 */
export function localMs(text) {
  const ms = new Date(text).getTime();
  return text && Number.isFinite(ms) ? ms : null;
}
