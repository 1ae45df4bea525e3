/**
 * How the learning rate is drawn.
 *
 * Data: none. Draws: panels/plot.js, as a panel of panels/vitals.js or panels/compareboard.js.
 */

import { heldReadout } from "../lib/charts/readout.js";

/** Learning rate of parameter group 0, held between steps. */
export const learningRate = {
  name: "lr",
  title: "Learning rate",
  height: 138,
  color: "--run-1",
  skips: false,
  drawing: /** @type {import("../lib/charts/picture.js").Drawing} */ ({
    axis: "linear",
    steps: true,
    zero: true,
  }),
  read: heldReadout,
  note: () => "group 0",
};
