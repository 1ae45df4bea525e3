/**
 * Formatting for display: narrow spaces, a true minus sign, powers of two, words for non-finite values, – for
 * missing ones.
 */

const NARROW = "\u202f";
const MINUS = "\u2212";
const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/**
 * Remove these characters from the end. The pattern /[.]+$/ takes quadratic time for some texts.
 *
 * @param {string} text
 * @param {string} letters
 */
export function withoutEnd(text, letters) {
  let end = text.length;
  while (end && letters.includes(text[end - 1])) end--;
  return text.slice(0, end);
}

/** @param {number | null | undefined} n "18 412", or – if missing */
export function int(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const digits = String(Math.round(Math.abs(n))).replace(/\B(?=(\d{3})+(?!\d))/g, NARROW);
  return n < 0 && digits !== "0" ? MINUS + digits : digits;
}

/**
 * Return the word for a non-finite value, or "".
 *
 * @param {number} v
 */
export function word(v) {
  if (Number.isNaN(v)) return "NaN";
  if (Number.isFinite(v)) return "";
  return v > 0 ? "+Inf" : `${MINUS}Inf`;
}

/**
 * Format with `digits` significant figures; 1.3e-4 below 1e-3 and from 1e5.
 *
 * @param {number | null | undefined} v
 */
export function num(v, digits = 4) {
  if (v === null || v === undefined) return "–";
  if (!Number.isFinite(v)) return word(v);
  if (v === 0) return "0";
  const size = Math.abs(v);
  const sign = v < 0 ? MINUS : "";
  if (size < 1e-3 || size >= 1e5) return sign + exponent(size, digits);
  // toPrecision(2) formats 279.7 as 2.8e+2, so larger values are shown as whole numbers.
  const rounded = size.toPrecision(digits);
  return sign + (Number.isInteger(size) || rounded.includes("e") ? int(size) : rounded);
}

/**
 * The same without trailing zeros: 0.5 instead of 0.5000.
 *
 * @param {number | null | undefined} v
 */
export function short(v, digits = 4) {
  const text = num(v, digits);
  return /^\D?\d+\.\d+$/.test(text) ? text.replace(/\.?0+$/, "") : text;
}

/**
 * @param {number} size
 * @param {number} digits
 */
function exponent(size, digits) {
  const [mantissa, power] = size.toExponential(Math.max(0, digits - 1)).split("e");
  const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  return `${short}e${Number(power)}`;
}

/** @param {number} n a whole number as superscript: ⁻¹² */
export const raised = (n) =>
  (n < 0 ? "⁻" : "") + [...String(Math.abs(n))].map((d) => SUPERSCRIPT[Number(d)]).join("");

/**
 * Format 65 536 as 2¹⁶; a number that is no power of two stays as it is.
 *
 * @param {number | null | undefined} v
 */
export function pow2(v) {
  if (v === null || v === undefined || !(v > 0) || !Number.isFinite(v)) return num(v);
  const power = Math.log2(v);
  return Number.isInteger(power) ? `2${raised(power)}` : num(v);
}

/**
 * Format a loss scale: "2⁹ 512".
 *
 * @param {number | null | undefined} v
 * @returns {[string, string]} power and number
 */
export function scale(v) {
  const power = pow2(v);
  const plain = v !== null && v !== undefined && Number.isInteger(v) && Math.abs(v) < 1e9 ? int(v) : short(v);
  return power.startsWith("2") && power !== plain && power !== num(v) ? [power, plain] : [num(v), ""];
}

/**
 * Format a duration: 8.2 s, 4 min, 1 h 8 min, 3 d.
 *
 * @param {number} s seconds
 */
export function span(s) {
  if (!Number.isFinite(s)) return "–";
  if (s < 10) return `${Math.max(0, s).toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 36) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.round(hours / 24)} d`;
}

/**
 * Say how long ago something was; from 90 minutes on in whole hours, to fit where numbers stand in a row.
 *
 * @param {number | null | undefined} at_ms
 * @param {number} now_ms
 */
export function ago(at_ms, now_ms) {
  if (at_ms === null || at_ms === undefined || !at_ms) return "–";
  const seconds = (now_ms - at_ms) / 1000;
  const unit = seconds < 5_400 ? 1 : 3600;
  return seconds < 3 ? "now" : `${span(unit * Math.round(seconds / unit))} ago`;
}

const TIME = /** @type {const} */ ({ hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DAY = /** @type {const} */ ({
  year: "numeric",
  month: "short",
  day: "numeric",
  ...TIME,
  timeZoneName: "short",
});
/**
 * Creating a formatter costs more than a thousand uses.
 *
 * @type {Map<string, Intl.DateTimeFormat>}
 */
const formatters = new Map();

/**
 * @param {typeof TIME | typeof DAY} style
 * @param {string} [zone]
 */
function formatter(style, zone) {
  const key = `${style === DAY} ${zone}`;
  const made = formatters.get(key) ?? new Intl.DateTimeFormat("en-GB", { ...style, timeZone: zone });
  formatters.set(key, made);
  return made;
}

/**
 * Exact time with time zone, for tooltips.
 *
 * @param {number | null | undefined} ms
 * @param {string} [zone]
 */
export const moment = (ms, zone) => (ms ? formatter(DAY, zone).format(ms) : "");

/**
 * Time of day, 03:12:44.
 *
 * @param {number | null | undefined} ms
 * @param {string} [zone]
 */
export const clock = (ms, zone) => (ms ? formatter(TIME, zone).format(ms) : "–");

/**
 * "scaler-collapse" becomes "Scaler collapse".
 *
 * @param {string} id
 */
export function ruleTitle(id) {
  const text = id
    .replaceAll("-", " ")
    .replace(/\b(lr|gpu)\b/g, (w) => w.toUpperCase())
    .replace(/\bnan\b/g, "NaN")
    .replace(/^nonfinite/, "non-finite");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * @param {number} n
 * @param {string} one
 * @param {string} [many] "1 alert", "2 alerts"
 */
export const counted = (n, one, many = `${one}s`) => `${int(n)} ${n === 1 ? one : many}`;

/**
 * Join the parts that are not empty with " · ".
 *
 * @param {...string} parts
 */
export const dotted = (...parts) => parts.filter(Boolean).join(" · ");

/**
 * Format a number of bytes.
 *
 * @param {number} n
 */
export function bytes(n) {
  const units = ["B", "kB", "MB", "GB"];
  let power = 0;
  while (n >= 1000 && power < units.length - 1) {
    n /= 1000;
    power++;
  }
  return `${power ? n.toPrecision(3) : n} ${units[power]}`;
}

/**
 * Replace 2^16 in the server's summaries with 2¹⁶.
 *
 * @param {string} text
 */
export const powers = (text) => text.replace(/\b2\^(-?\d+)/g, (_, n) => `2${raised(Number(n))}`);
