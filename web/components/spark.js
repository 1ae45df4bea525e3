/**
 * A sparkline as SVG. Marks are separate elements, so that they keep their shape when the line is stretched.
 */

import { el, svg } from "../browser/dom.js";
import { H, sparkShape, W } from "../lib/charts/sparkline.js";

const MARK = {
  nan: "M5 1a4 4 0 1 0 .01 0zM2.3 2.3l5.4 5.4M7.7 2.3 2.3 7.7",
  pinf: "M5 1.4 8.8 8.4H1.2z",
  ninf: "M5 8.6 1.2 1.6h7.6z",
};

/**
 * @param {Spark} spark
 * @param {{ log?: boolean | "auto", onset?: number | null, label: string }} o
 */
export function sparkline(spark, o) {
  const shape = sparkShape(spark, o);
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${W} ${H}`,
      preserveAspectRatio: "none",
      class: "spark",
      role: "img",
      "aria-label": o.label,
    },
    shape.band ? svg("path", { class: "band", d: shape.band }) : null,
    shape.line ? svg("path", { class: "line", d: shape.line }) : null,
    shape.onset === null
      ? null
      : svg("path", { class: "onset", d: `M${(shape.onset * W).toFixed(1)} -1V${H + 1}` }),
  );
  return el("div.sparkbox", {}, picture, ...shape.marks.map(mark));
}

/** @param {{ kind: "nan" | "pinf" | "ninf", x: number }} mark */
function mark({ kind, x }) {
  const node = svg(
    "svg",
    {
      viewBox: "0 0 10 10",
      class: `mark ${kind}`,
      "--x": `${(x * 100).toFixed(2)}%`,
      "--y": kind === "ninf" ? "93%" : "7%",
      "aria-hidden": "true",
    },
    svg("path", { d: MARK[kind] }),
  );
  return node;
}
