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
  const view = new DataView(new ArrayBuffer(text.length));
  for (let i = 0; i < text.length; i++) view.setUint8(i, text.charCodeAt(i));
  const values = new Float64Array(text.length / 8);
  for (let i = 0; i < values.length; i++) values[i] = view.getFloat64(i * 8, true);
  return values;
}
