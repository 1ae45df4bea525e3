/**
 * Zoom with the mouse wheel after a click on the plot, with the wheel and Ctrl (⌘ on a Mac), or by pinching
 * on a touchpad: over the plot area its x axis, over the labels of the value axis the values. Without a click
 * and without the key, the page scrolls.
 *
 * Data: the ranges that plotly drew. Draws: nothing.
 */

import { isClick, wheelFactor, zoomedAt } from "../lib/charts/zoom.js";

/** Events this close belong to one turn, which continues from its own range: charts are drawn later. */
const TURN_MS = 500;

/**
 * @typedef {{ axis: "xaxis" | "yaxis", range: [number, number] }} Turned
 */

/**
 * Call `zoomed` with the new range of an axis, at most once per frame.
 *
 * @param {HTMLElement} div a plot
 * @param {boolean} values the value axis can be zoomed too
 * @param {(turned: Turned) => void} zoomed
 */
export function onWheelZoom(div, values, zoomed) {
  /** @type {(Turned & { when: number }) | null} */
  let turn = null;
  let frame = 0;
  const isClicked = clicked(div);
  div.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && !isClicked()) return;
      event.preventDefault(); // the browser would zoom or scroll the page
      const drawn = /** @type {PlotDiv} */ (div)._fullLayout;
      if (!drawn || !event.deltaY) return;
      const { axis, share } = placeOf(div, drawn, event);
      if (axis === "yaxis" && !values) return;
      const isSame = turn?.axis === axis && event.timeStamp - turn.when < TURN_MS;
      const [a, b] = turn && isSame ? turn.range : drawn[axis].range;
      const range = zoomedAt([a, b], a + share * (b - a), wheelFactor(event));
      turn = { axis, range, when: event.timeStamp };
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => zoomed({ axis, range }));
    },
    { passive: false },
  );
}

/**
 * Return a function that says whether the last click was on a plot and the pointer has been there since.
 *
 * @param {HTMLElement} div
 */
function clicked(div) {
  let is = false;
  div.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType !== "mouse") return;
    // Listen on window, because plotly covers the page while a button is pressed.
    addEventListener("pointerup", (up) => (is = isClick(event, up)), { once: true });
  });
  div.addEventListener("pointerleave", () => (is = false));
  return () => is;
}

/**
 * Return the axis under the pointer, and where on it.
 *
 * @param {HTMLElement} div
 * @param {{ xaxis: PlotAxis, yaxis: PlotAxis }} drawn
 * @param {WheelEvent} event
 * @returns {{ axis: "xaxis" | "yaxis", share: number }}
 */
function placeOf(div, { xaxis, yaxis }, event) {
  const box = div.getBoundingClientRect();
  const x = event.clientX - box.left - xaxis._offset;
  const y = event.clientY - box.top - yaxis._offset;
  return x < 0
    ? { axis: "yaxis", share: 1 - y / yaxis._length }
    : { axis: "xaxis", share: Math.min(1, x / xaxis._length) };
}
