/** Ranges of an axis after zooming with the wheel, the keyboard or two fingers. */

/** The range shrinks by this factor for a key press, and for this many pixels of the wheel. */
const KEY_FACTOR = 1.5;
const WHEEL_PX = 250;
/** The largest factor of one event of the wheel. */
const MOST = 2;
/** Pixels of the units in which browsers report the wheel: pixels, lines, pages. */
const UNITS_PX = [1, 16, 400];
/** A pointer that moved less than this is a click, not a drag. */
const CLICK_PX = 4;
/** Fingers that are closer are taken to be this far apart. */
const FINGERS_PX = 24;

/**
 * Return the range that is `factor` times as large; the value `at` keeps its place.
 *
 * @param {[number, number]} range
 * @param {number} at
 * @param {number} factor
 * @returns {[number, number]}
 */
export const zoomedAt = ([a, b], at, factor) => [at - (at - a) * factor, at + (b - at) * factor];

/**
 * Return by which factor an event of the wheel changes a range: below 1 when turned away from the user.
 *
 * @param {{ deltaY: number, deltaMode: number }} event
 */
export const wheelFactor = ({ deltaY, deltaMode }) =>
  Math.min(MOST, Math.max(1 / MOST, 2 ** ((deltaY * UNITS_PX[deltaMode]) / WHEEL_PX)));

/**
 * Return by which factor a key changes a range; null for other keys.
 *
 * @param {string} key
 */
export const keyFactor = (key) =>
  key === "+" || key === "=" ? 1 / KEY_FACTOR : key === "-" || key === "−" ? KEY_FACTOR : null;

/**
 * Return the place around which a key zooms: the cross line if it is visible, else the middle.
 *
 * @param {[number, number]} range
 * @param {number | null} cross
 */
export const zoomCenter = ([a, b], cross) =>
  cross !== null && cross >= a && cross <= b ? cross : (a + b) / 2;

/**
 * Return whether a pointer was pressed and released at the same place.
 *
 * @param {{ clientX: number, clientY: number }} down
 * @param {{ clientX: number, clientY: number }} up
 */
export const isClick = (down, up) =>
  Math.hypot(up.clientX - down.clientX, up.clientY - down.clientY) <= CLICK_PX;

/**
 * Return the range in which the values that were under two fingers are under them again.
 *
 * @param {[number, number]} range when the fingers went down
 * @param {[number, number]} from where they were, as shares of the axis
 * @param {[number, number]} to where they are
 * @param {number} length of the axis in pixels
 * @returns {[number, number]}
 */
export function pinched([a, b], from, to, length) {
  const least = FINGERS_PX / length;
  const apart = (/** @type {[number, number]} */ [one, other]) => Math.max(least, Math.abs(other - one));
  const middle = (/** @type {[number, number]} */ [one, other]) => (one + other) / 2;
  const span = ((b - a) * apart(from)) / apart(to);
  const first = a + middle(from) * (b - a) - middle(to) * span;
  return [first, first + span];
}
