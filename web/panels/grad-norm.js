/**
 * How the gradient norm is drawn.
 *
 * Data: none. Draws: panels/plot.js, as a panel of panels/vitals.js or panels/compareboard.js.
 */

import { meanReadout } from "../lib/charts/readout.js";

/** Total norm before clipping, unscaled. Zeros are drawn as marks, because a log axis cannot show them. */
export const gradNorm = {
  name: "grad_norm",
  title: "Grad norm",
  height: 166,
  color: "--run-1",
  skips: false,
  drawing: /** @type {import("../lib/charts/picture.js").Drawing} */ ({ axis: "log" }),
  read: meanReadout,
  note: () => "log · unscaled",
};
