/**
 * How the loss is drawn.
 *
 * Data: none. Draws: panels/plot.js, as a panel of panels/vitals.js or panels/compareboard.js.
 */

import { meanReadout } from "../lib/charts/readout.js";

/**
 * The objective whose gradient is applied. Its axis becomes logarithmic if a linear one would hide too much.
 */
export const loss = {
  name: "loss",
  title: "Loss",
  height: 188,
  color: "--run-1",
  skips: false,
  drawing: /** @type {import("../lib/charts/picture.js").Drawing} */ ({ axis: "auto" }),
  read: meanReadout,
  /** @param {{ log: boolean }} plan */
  note: (plan) => (plan.log ? "log" : ""),
};
