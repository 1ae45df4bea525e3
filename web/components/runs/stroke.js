/** A short line that looks like the line of a run: for tables, legends and tooltips. */

import { svg } from "../../browser/dom.js";

/**
 * Return how a line looks.
 *
 * @param {string} ink a design token
 * @param {string} [dash] as plotly takes it
 */
export const strokeOf = (ink, dash = "") =>
  svg(
    "svg",
    { viewBox: "0 0 24 6", class: "stroke", "aria-hidden": "true", "--ink": `var(${ink})` },
    svg("path", { d: "M0 3h24", "stroke-dasharray": dash.replaceAll("px", "") || null }),
  );
