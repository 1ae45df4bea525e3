/**
 * The series of the vital signs (KINDS in panels/vitals.js), which the pages load. `skipped` is drawn as
 * ticks below the loss scale.
 */
export const VITAL_SERIES = ["loss", "grad_norm", "scale", "lr", "skipped"];
