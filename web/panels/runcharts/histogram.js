/**
 * Histogram of a number over runs: how many runs have it in each of equally wide ranges.
 *
 * Data: numbers of the runs (lib/charts/quantity.js). Draws: SVG, with panels/runcharts/axes.js.
 */

import { svg } from "../../browser/dom.js";
import { linearAxis } from "../../lib/charts/axis.js";
import { quantityText } from "../../lib/charts/quantity.js";
import { binsOf, byValue, runAxis } from "../../lib/charts/runcharts.js";
import { counted, dotted, num } from "../../lib/format.js";
import { chartFrame, placesIn } from "./axes.js";

/** @type {import("./index.js").RunChartKind} */
export const histogram = {
  kind: "histogram",
  title: "Histogram",
  fields: ["Value"],
  draw: (runs, [quantity], width, acts) => {
    const xs = runAxis(quantity, runs);
    const bins = binsOf(xs, runs);
    const most = Math.max(1, ...bins.map((bin) => bin.runs.length));
    const plan = linearAxis(0, most, { zero: true });
    const up = (/** @type {number} */ count) => count / plan.range[1];
    const ticks = plan.ticks
      .map((tick, i) => ({ at: up(tick), text: plan.labels[i], whole: Number.isInteger(tick) }))
      .filter(({ whole }) => whole);
    const { x, y } = placesIn(width);
    const bars = bins.map((bin) => {
      const top = y(up(bin.runs.length));
      const wide = Math.max(1, x(bin.to) - x(bin.from) - 1);
      const label = counted(bin.runs.length, "run");
      const rect = svg(
        "rect",
        { x: x(bin.from), y: top, width: wide, height: y(0) - top },
        svg("title", {}, label),
      );
      rect.addEventListener("click", () => acts.show(bin.runs));
      return rect;
    });
    const placed = bins.reduce((sum, bin) => sum + bin.runs.length, 0);
    return {
      node: chartFrame(
        `${quantityText(quantity)}: number of runs in each range`,
        width,
        xs,
        { label: "", ticks },
        bars,
      ),
      words: dotted(counted(placed, "run"), medianOf(quantity, runs)),
      missing: runs.length - placed,
    };
  },
};

/**
 * @param {import("../../lib/charts/quantity.js").Quantity} quantity
 * @param {import("../../lib/charts/quantity.js").RunNumbers[]} runs
 */
function medianOf(quantity, runs) {
  const values = byValue(quantity, runs).flatMap(({ value }) => (Number.isFinite(value) ? [value] : []));
  const [low, high] = [values[Math.ceil(values.length / 2) - 1], values[Math.floor(values.length / 2)]];
  return values.length ? `median ${num((Number(low) + Number(high)) / 2)}` : "";
}
