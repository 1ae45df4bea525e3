import { meanReadout } from "../lib/charts/readout.js";

/** Total norm before clipping, in true units. Zeros stand on the rail: a log axis has no place for them. */
export const gradNorm = {
  name: "grad_norm",
  title: "Grad norm",
  height: 166,
  colour: "--run-1",
  skips: false,
  drawing: /** @type {import("../lib/charts/picture.js").Drawing} */ ({ axis: "log" }),
  read: meanReadout,
  note: () => "log · before clipping, unscaled",
};
