/** The series of the vital signs. `skipped` is drawn as ticks below the loss scale. */
export const VITAL_SERIES = ["loss", "grad_norm", "scale", "lr", "skipped"];
