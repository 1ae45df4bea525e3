/** Numbers in the API's format: non-finite values as strings, arrays as little-endian float64 in base64. */

/** @type {Record<string, number>} */
const WORDS = { NaN, Infinity, "-Infinity": -Infinity };

/**
 * Return a number of the API, or null if it is missing. Missing is not NaN.
 *
 * @param {unknown} value
 */
export function number(value) {
  if (typeof value === "number") return value;
  return typeof value === "string" && value in WORDS ? WORDS[value] : null;
}

/**
 * Decode the float64 values of a packed array, bit for bit.
 *
 * @param {Packed} packed
 * @returns {Float64Array}
 */
export function unpack(packed) {
  if (packed.dtype !== "f8") throw new TypeError(`array: expected dtype "f8", got "${packed.dtype}"`);
  const text = atob(packed.bdata);
  if (text.length % 8) throw new RangeError(`array: expected a multiple of 8 bytes, got ${text.length}`);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  return LITTLE ? new Float64Array(bytes.buffer) : swapped(bytes);
}

/** Whether this machine stores numbers as the API sends them. */
const LITTLE = new Uint8Array(new Float64Array([1]).buffer)[7] !== 0;

/** @param {Uint8Array} bytes */
function swapped(bytes) {
  const view = new DataView(bytes.buffer);
  return new Float64Array(bytes.length / 8).map((_, i) => view.getFloat64(i * 8, true));
}
