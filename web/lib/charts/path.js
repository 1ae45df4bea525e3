/** Lines of charts as SVG paths. */

/**
 * Return a line as an SVG path; a single value becomes a dot through round line caps.
 *
 * @param {{ x: ArrayLike<number>, y: ArrayLike<number>, held: boolean }} line
 * @param {(x: number) => number} across pixels
 * @param {(y: number) => number} down pixels
 */
export function pathOf({ x, y, held }, across, down) {
  let text = "";
  let on = false;
  for (let i = 0; i < x.length; i++) {
    const px = across(x[i]);
    const py = down(y[i]);
    const there = Number.isFinite(py);
    if (there) {
      text += !on
        ? `M${px.toFixed(1)} ${py.toFixed(1)}h0`
        : held
          ? `H${px.toFixed(1)}V${py.toFixed(1)}`
          : `L${px.toFixed(1)} ${py.toFixed(1)}`;
    }
    on = there;
  }
  return text;
}
