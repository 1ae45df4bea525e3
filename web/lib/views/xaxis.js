/** The x axis that the reader chose, as the address of the run page and of the comparison has it. */

/**
 * Tokens: in a comparison, the metric of each run that counts tokens.
 *
 * @typedef {"step" | "relative" | "wall" | "tokens" | `metric:${string}`} XKind
 * @typedef {{ x: XKind, logX: boolean }} XAxis logX: logarithmic
 */

const METRIC = "metric:";

/**
 * Return the metric of an axis, or null if it is another one.
 *
 * @param {XKind} x
 */
export const xMetric = (x) => (x.startsWith(METRIC) ? x.slice(METRIC.length) : null);

/**
 * @param {string} name of a metric
 * @returns {XKind}
 */
export const xOf = (name) => `${METRIC}${name}`;

/**
 * Return whether an axis can be logarithmic. The year 1970 is no useful origin.
 *
 * @param {XKind} x
 */
export const canBeLog = (x) => x !== "wall";

/**
 * @param {URLSearchParams} asked
 * @param {readonly string[]} known kinds besides metrics
 * @returns {XAxis} what is not readable is the step
 */
export function readX(asked, known) {
  const text = asked.get("x") ?? "";
  const isMetric = text.startsWith(METRIC) && text.length > METRIC.length;
  const x = /** @type {XKind} */ (isMetric || known.includes(text) ? text : "step");
  return { x, logX: asked.get("logx") === "1" && canBeLog(x) };
}

/** @type {XAxis} */
export const BY_STEP = { x: "step", logX: false };

/**
 * @param {XAxis} axis
 * @param {XAxis} [usual] what an address without these pairs means
 * @returns {[string, string][]} what differs from it
 */
export function xPairs({ x, logX }, usual = BY_STEP) {
  const isLog = logX && canBeLog(x);
  return [
    ...(x === usual.x ? [] : [/** @type {[string, string]} */ (["x", x])]),
    ...(isLog === usual.logX ? [] : [/** @type {[string, string]} */ (["logx", isLog ? "1" : "0"])]),
  ];
}

/**
 * Return the step from which the distance is on a logarithmic scale; null if the axis is linear.
 *
 * @param {XAxis} axis
 * @param {number | null} first step of the run
 */
export const logOrigin = ({ x, logX }, first) =>
  logX && canBeLog(x) ? (x === "step" ? 0 : (first ?? 0)) : null;
