/**
 * A virtualized list: only visible items exist. Heights are known in advance, so nothing is measured and
 * nothing jumps.
 */

/**
 * @param {number[]} heights
 * @returns {number[]} the top of each item, and finally the total height
 */
export function offsets(heights) {
  const tops = [0];
  for (const height of heights) tops.push(tops[tops.length - 1] + height);
  return tops;
}

/**
 * Return the items that overlap [from, to], in pixels from the list's top.
 *
 * @param {number[]} tops
 * @param {number} from
 * @param {number} to
 * @returns {[number, number]} first index and one past the last
 */
export function sight(tops, from, to) {
  const count = tops.length - 1;
  return [Math.max(0, place(tops, from) - 1), Math.min(count, place(tops, to))];
}

/**
 * Return how many tops are at or above `y`.
 *
 * @param {number[]} tops
 * @param {number} y
 */
function place(tops, y) {
  let low = 0;
  let high = tops.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tops[middle] <= y) low = middle + 1;
    else high = middle;
  }
  return low;
}
