/** Numbers in the API's format: non-finite values as strings, arrays as little-endian floats in base64. */

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

/** @type {Record<string, number>} */
const BYTES = { f4: 4, f8: 8 };

/**
 * Decode the float64 or float32 values of a packed array, bit for bit.
 *
 * @param {Packed} packed
 * @returns {Float64Array}
 */
export function unpack({ dtype, bdata }) {
  const size = BYTES[dtype];
  if (!size) throw new TypeError(`array: expected dtype "f4" or "f8", got "${dtype}"`);
  const text = atob(bdata);
  if (text.length % size) {
    throw new RangeError(`array: expected a multiple of ${size} bytes, got ${text.length}`);
  }
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
  if (!LITTLE) return swapped(bytes, size);
  return size === 8 ? new Float64Array(bytes.buffer) : new Float64Array(new Float32Array(bytes.buffer));
}

/** Whether this machine stores numbers as the API sends them. */
const LITTLE = new Uint8Array(new Float64Array([1]).buffer)[7] !== 0;

/**
 * @param {Uint8Array} bytes
 * @param {number} size
 */
function swapped(bytes, size) {
  const view = new DataView(bytes.buffer);
  return new Float64Array(bytes.length / size).map((_, i) =>
    size === 8 ? view.getFloat64(i * 8, true) : view.getFloat32(i * 4, true),
  );
}
