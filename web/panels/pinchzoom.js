/**
 * Zoom the x axis with two fingers on a touch screen. One finger scrolls the page.
 *
 * Data: the range that plotly drew. Draws: nothing.
 */

import { pinched } from "../lib/charts/zoom.js";

/**
 * Call `zoomed` with the new range of the x axis, at most once per frame.
 *
 * @param {HTMLElement} div a plot
 * @param {(range: [number, number]) => void} zoomed
 */
export function onPinchZoom(div, zoomed) {
  /** @type {Map<number, number>} where each finger is, as a share of the axis */
  const fingers = new Map();
  /** @type {{ range: [number, number], from: [number, number] } | null} */
  let pinch = null;
  let frame = 0;

  const drawn = () => /** @type {PlotDiv} */ (div)._fullLayout;
  const two = () => /** @type {[number, number]} */ ([...fingers.values()].slice(0, 2));

  /**
   * @param {PointerEvent} event
   * @param {PlotAxis} axis
   */
  const note = (event, axis) => {
    const left = div.getBoundingClientRect().left + axis._offset;
    fingers.set(event.pointerId, (event.clientX - left) / axis._length);
  };

  /** @param {PointerEvent} event */
  const lift = (event) => {
    fingers.delete(event.pointerId);
    pinch = null;
  };

  div.addEventListener("pointerdown", (event) => {
    const layout = drawn();
    if (!layout || event.pointerType !== "touch" || layout.dragmode) return; // plotly uses the finger
    note(event, layout.xaxis);
    if (fingers.size !== 2) return;
    pinch = { range: [layout.xaxis.range[0], layout.xaxis.range[1]], from: two() };
    // The chart is drawn while the fingers move, which replaces the elements under them.
    for (const id of fingers.keys()) div.setPointerCapture(id);
  });
  div.addEventListener("pointermove", (event) => {
    const axis = drawn()?.xaxis;
    if (!axis || !fingers.has(event.pointerId)) return;
    note(event, axis);
    if (!pinch) return;
    const range = pinched(pinch.range, pinch.from, two(), axis._length);
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => zoomed(range));
  });
  div.addEventListener("pointerup", lift);
  div.addEventListener("pointercancel", lift);
}
