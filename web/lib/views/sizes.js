/** Sizes of charts: one or both columns, and a height in pixels. In the address: "2x240:val/psnr". */

/** @typedef {{ wide: boolean, height: number | null }} Size height: null is that of its kind */

const HEIGHTS = { least: 80, most: 800 };
/** A chart as wide as this share of both columns has both. */
const WIDE_FROM = 0.75;
/** Charts with a size in one address. */
const MOST = 60;

/** @param {number} px */
export const heightWithin = (px) => Math.round(Math.max(HEIGHTS.least, Math.min(HEIGHTS.most, px)));

/**
 * @param {URLSearchParams} asked
 * @returns {Record<string, Size>} unreadable ones are left out
 */
export function readSizes(asked) {
  const found = asked
    .getAll("size")
    .slice(0, MOST)
    .flatMap((text) => {
      const [size, ...name] = text.split(":");
      const [columns, height, ...more] = size.split("x");
      const read = ["1", "2"].includes(columns) && height !== undefined && !more.length && name.length > 0;
      return read && Number.isFinite(Number(height))
        ? [/** @type {const} */ ([name.join(":"), sizeOf(columns === "2", height)])]
        : [];
    });
  return Object.fromEntries(found);
}

/**
 * @param {boolean} wide
 * @param {string} height
 * @returns {Size}
 */
const sizeOf = (wide, height) => ({ wide, height: height ? heightWithin(Number(height)) : null });

/**
 * @param {Record<string, Size>} sizes
 * @returns {[string, string][]}
 */
export const sizePairs = (sizes) =>
  Object.entries(sizes)
    .slice(0, MOST)
    .map(([name, { wide, height }]) => ["size", `${wide ? 2 : 1}x${height ?? ""}:${name}`]);

/**
 * Return the sizes after one chart has another; that of its kind is left out.
 *
 * @param {Record<string, Size>} sizes
 * @param {string} name
 * @param {Partial<Size>} change
 */
export function resized(sizes, name, change) {
  const { [name]: before = { wide: false, height: null }, ...rest } = sizes;
  const size = { ...before, ...change };
  return size.wide || size.height !== null ? { ...rest, [name]: size } : rest;
}

/**
 * Return the size of a chart that was dragged at its corner.
 *
 * @param {{ height: number, width: number }} start of its plot and of the chart, in pixels
 * @param {{ x: number, y: number }} moved
 * @param {number} room width of both columns
 * @returns {Size}
 */
export const draggedTo = (start, moved, room) => ({
  wide: start.width + moved.x >= WIDE_FROM * room,
  height: heightWithin(start.height + moved.y),
});
