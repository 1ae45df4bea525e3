/**
 * How the loss scale is drawn.
 *
 * Data: none. Draws: panels/plot.js, as a panel of panels/vitals.js or panels/compareboard.js.
 */

import { scaleReadout } from "../lib/charts/readout.js";

/** The loss scale of the GradScaler in powers of two, with ticks at the steps it skipped. */
export const scale = {
  name: "scale",
  title: "Loss scale",
  height: 168,
  color: "--run-1",
  skips: true,
  drawing: /** @type {import("../lib/charts/picture.js").Drawing} */ ({ axis: "log2", steps: true }),
  read: scaleReadout,
  note: () => "log₂ · ticks below: skipped steps",
};
