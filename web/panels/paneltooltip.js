/**
 * The tooltip of a page's charts: it follows the pointer over their plots. A click pins it together with the
 * cross line; Escape or its button releases both.
 *
 * Data: its host says what is at a place of a chart. Draws: panels/tooltip.js.
 */

import { companions } from "../lib/charts/optimizers.js";
import { pointed, rowOf } from "../lib/charts/pointed.js";
import { reading } from "../lib/charts/series.js";
import { dotted, int, moment } from "../lib/format.js";
import { margins } from "./figure.js";
import { Tooltip } from "./tooltip.js";

/**
 * A place in a chart: where on the x axis, in units of the cross line, and how many pixels below the upper
 * edge of the plot.
 *
 * @typedef {{ panel: import("./panel.js").Panel, at: number, y: number }} Spot
 *
 * @typedef {{ panels: () => Iterable<import("./panel.js").Panel>, range: () => [number, number], timeline: ()
 *   => { toX: (at: number) => number, toStep: (x: number) => number }, content: (spot: Spot) =>
 *   import("./tooltip.js").Content | null, rounded: (at: number) => number, pointed?: (spot: Spot | null) =>
 *   void, release: () => void }} SpotSource
 *   rounded: where the cross line is for a place, so that values, their order and the line have one x
 */

export class PanelTooltip {
  #frame = 0;
  /** @type {Spot | null} under the pointer */
  #spot = null;
  /** @type {Spot | null} where a button or a finger went down last */
  #pressed = null;
  /** @type {Spot | null} */
  #pin = null;

  /**
   * @param {HTMLElement} host contains the panels
   * @param {SpotSource} source
   */
  constructor(host, source) {
    this.source = source;
    this.tooltip = new Tooltip(host, source.release);
    this.node = this.tooltip.node;
    host.addEventListener("pointermove", (event) => this.#moved(event));
    host.addEventListener("pointerleave", () => this.#point(null));
    host.addEventListener("pointerdown", (event) => {
      this.#pressed = this.#under(event) ?? this.#pressed;
    });
  }

  close() {
    cancelAnimationFrame(this.#frame);
  }

  /**
   * The cross line was pinned or, for null, released. The tooltip is pinned where the last click was.
   *
   * @param {number | null} at
   */
  pinned(at) {
    if (at === null) this.#pressed = null;
    this.#pin = this.#pressed && at !== null ? { ...this.#pressed, at } : null;
    this.refresh(at);
  }

  /**
   * Show the current values after the window or the data changed.
   *
   * @param {number | null} at where the cross line is pinned; if elsewhere, the tooltip is released
   */
  refresh(at) {
    if (this.#pin && (this.#pin.at !== at || !this.#pin.panel.plot.isConnected)) this.#pin = null;
    this.#show();
  }

  /** @param {PointerEvent} event */
  #moved(event) {
    cancelAnimationFrame(this.#frame);
    // Now, because a chart that is drawn before the next frame replaces the elements under the pointer.
    const panel = this.#panelOf(event);
    this.#frame = requestAnimationFrame(() => this.#point(event.buttons ? null : this.#under(event, panel)));
  }

  /** @param {Spot | null} spot */
  #point(spot) {
    cancelAnimationFrame(this.#frame);
    this.#spot = spot;
    this.source.pointed?.(spot);
    if (!this.#pin) this.#show();
  }

  #show() {
    const spot = this.#pin ?? this.#spot;
    const content = spot && this.source.content(spot);
    const place = spot && content && this.#place(spot);
    if (place) this.tooltip.show(place, content, this.#pin !== null);
    else this.tooltip.hide();
  }

  /** @param {PointerEvent} event */
  #panelOf(event) {
    const target = /** @type {Node} */ (event.target);
    return [...this.source.panels()].find((each) => each.plot.contains(target));
  }

  /**
   * Return what is under the pointer, or null outside of the plots.
   *
   * @param {PointerEvent} event
   * @param {import("./panel.js").Panel} [panel]
   * @returns {Spot | null}
   */
  #under(event, panel = this.#panelOf(event)) {
    if (!panel) return null;
    const { left, wide, top } = area(panel.plot);
    const px = event.clientX - left;
    if (px < -1 || px > wide + 1) return null; // widths are rounded
    const [from, to] = this.source.range();
    const x = from + Math.min(1, Math.max(0, px / wide)) * (to - from);
    const at = this.source.rounded(this.source.timeline().toStep(x));
    return { panel, at, y: event.clientY - top };
  }

  /**
   * Return where a spot is in the window, or null if it is outside of the visible part of the axis.
   *
   * @param {Spot} spot
   */
  #place({ panel, at, y }) {
    const [from, to] = this.source.range();
    const share = (this.source.timeline().toX(at) - from) / (to - from);
    const { left, wide, top } = area(panel.plot);
    return wide > 0 && share >= 0 && share <= 1 ? { clientX: left + share * wide, clientY: top + y } : null;
  }
}

/**
 * Return the area of a plot in which its lines are, in pixels of the window.
 *
 * @param {HTMLElement} plot
 */
function area(plot) {
  const box = plot.getBoundingClientRect();
  const { left, right } = margins();
  return { left: box.left + left, wide: box.width - left - right, top: box.top };
}

/**
 * What the tooltip says at a step of a run's chart.
 *
 * @param {import("./panel.js").Panel} panel
 * @param {Layer[]} layers
 * @param {number} at
 * @param {import("./vitals.js").Scene} scene
 * @param {{ name: string, layers: Layer[], ink: string, dash?: string }[]} [lines] of a composed chart;
 *   without them, those of the run's other optimizers follow
 * @returns {import("./tooltip.js").Content | null} null beyond the newest step
 */
export function contentOf(panel, layers, at, scene, lines) {
  const { last, look, timeline } = scene;
  const step = Math.round(at);
  if (step > last) return null;
  const [first, ...others] = lines ?? [];
  const kind = first ? { ...panel.kind, title: first.name, color: first.ink } : panel.kind;
  const smoothed = others.length ? null : panel.smoothed(timeline.toX(step));
  const found = pointed(kind, first?.layers ?? layers, step, look, smoothed);
  if (!found) return null;
  const where = timeline.kind === "wall" ? "" : timeline.words(step);
  const rows = [...found.rows, ...(lines ? rowsOf(kind, step, others) : besideRows(kind, step, scene))];
  return { title: dotted(`step ${int(step)}`, where, moment(found.t)), rows, note: found.note };
}

/**
 * The other optimizers of the run that are drawn in the chart.
 *
 * @param {import("./panel.js").PanelKind} kind
 * @param {number} step
 * @param {import("./vitals.js").Scene} scene
 */
const besideRows = (kind, step, { layers, reported }) =>
  rowsOf(
    kind,
    step,
    companions(kind.name, reported).map((each) => ({ ...each, layers: layers(each.series) })),
  );

/**
 * @param {import("./panel.js").PanelKind} kind
 * @param {number} step
 * @param {{ name: string, layers: Layer[], ink: string, dash?: string }[]} lines
 */
const rowsOf = (kind, step, lines) =>
  lines.flatMap(({ name, layers, ink, dash }) => {
    const found = reading(layers, step);
    return found ? [{ ...rowOf(kind, found, name, ink), dash }] : [];
  });
