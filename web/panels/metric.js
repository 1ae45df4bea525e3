/**
 * How any other metric is drawn, and which series are metrics.
 *
 * Data: none. Draws: panels/plot.js, as a panel of panels/metricpanels.js or panels/compareboard.js.
 */

import { heldReadout, meanReadout, scaleReadout } from "../lib/charts/readout.js";
import { VITAL_SERIES } from "../lib/charts/vitalsigns.js";

/** Series that the vital signs already show, and those that only count. */
const SHOWN_ABOVE = new Set([...VITAL_SERIES, "stepped", "found_inf", "loss_n"]);

/**
 * Return whether the metrics section shows it.
 *
 * @param {string} name
 */
export const isMetric = (name) =>
  !SHOWN_ABOVE.has(name.split("/")[0]) || /^(loss|grad_norm|scale|lr)\//.test(name);

/**
 * Any other series, drawn according to its name: scales in powers of two, norms on a log axis, everything
 * else on an automatic axis.
 *
 * @param {string} name
 * @returns {import("./panel.js").PanelKind}
 */
export function metric(name) {
  const base = name.split("/")[0];
  const frame = { name, title: name, height: 116, color: "--run-1", skips: false };
  if (base === "scale") {
    return { ...frame, drawing: { axis: "log2", steps: true }, read: scaleReadout, note: () => "log₂" };
  }
  if (base === "grad_norm") {
    return { ...frame, drawing: { axis: "log" }, read: meanReadout, note: () => "log" };
  }
  if (base === "lr") {
    return {
      ...frame,
      drawing: { axis: "linear", steps: true, zero: true },
      read: heldReadout,
      note: () => "",
    };
  }
  return { ...frame, drawing: { axis: "auto" }, read: meanReadout, note: (plan) => (plan.log ? "log" : "") };
}

/**
 * Return the column of a chart of one series.
 *
 * @param {string} name
 * @returns {import("../components/runs/valuetable.js").Values}
 */
export const seriesValues = (name) => ({
  title: name,
  names: [name],
  columns: [{ head: "Value", of: (values) => values[name] }],
});
