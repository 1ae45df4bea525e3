import { heldReadout, meanReadout, scaleReadout } from "../lib/charts/readout.js";

/** Series whose story the vital signs already tell. */
const BOOKKEEPING = new Set([
  "loss",
  "grad_norm",
  "scale",
  "lr",
  "skipped",
  "stepped",
  "found_inf",
  "loss_n",
]);

/**
 * Whether the grid below the vital signs shows it.
 *
 * @param {string} name
 */
export const isOther = (name) =>
  !BOOKKEEPING.has(name.split("/")[0]) || /^(loss|grad_norm|scale|lr)\//.test(name);

/**
 * Any other series, drawn as its name says: another scaler in powers of two, another norm on a log axis, the
 * rest as it comes.
 *
 * @param {string} name
 * @returns {import("./panel.js").PanelKind}
 */
export function other(name) {
  const base = name.split("/")[0];
  const frame = { name, title: name, height: 116, colour: "--run-1", skips: false };
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
