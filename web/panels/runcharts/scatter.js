/**
 * Scatter chart of runs: one point for each, a setting or a metric against another.
 *
 * Data: numbers of the runs (lib/charts/quantity.js). Draws: SVG, with panels/runcharts/axes.js.
 */

import { svg } from "../../browser/dom.js";
import { quantityText } from "../../lib/charts/quantity.js";
import { runAxis } from "../../lib/charts/runcharts.js";
import { spearman } from "../../lib/charts/rankcorrelation.js";
import { counted, dotted, num } from "../../lib/format.js";
import { chartFrame, placesIn } from "./axes.js";

const RADIUS = 5;

/** @type {import("./index.js").RunChartKind} */
export const scatter = {
  kind: "scatter",
  title: "Scatter",
  fields: ["X axis", "Y axis"],
  draw: (runs, [across, up], width, acts) => {
    const [xs, ys] = [runAxis(across, runs), runAxis(up, runs)];
    const { x, y } = placesIn(width);
    const placed = runs.flatMap((run) => {
      const [a, b] = [xs.place(run), ys.place(run)];
      return a === null || b === null ? [] : [{ run, a, b }];
    });
    const points = placed.map(({ run, a, b }) => {
      const point = svg("circle", {
        cx: x(a),
        cy: y(b),
        r: RADIUS,
        "data-run": run.id,
        "--ink": `var(${run.ink})`,
      });
      point.addEventListener("pointerenter", () => acts.point(run.id));
      point.addEventListener("click", () => acts.show([run]));
      return point;
    });
    const label = `${quantityText(up)} by ${quantityText(across)}`;
    const rho = spearman(
      placed.map(({ a }) => a),
      placed.map(({ b }) => b),
    );
    return {
      node: chartFrame(`${label}, a point for each run`, width, xs, ys, points),
      words: dotted(
        counted(placed.length, "run"),
        rho === null || placed.length < 3 ? "" : `rank correlation ${num(rho, 2)}`,
      ),
      missing: runs.length - placed.length,
    };
  },
};
