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

/**
 * @param {XAxis} axis
 * @returns {[string, string][]} what differs from the step
 */
export const xPairs = ({ x, logX }) => [
  ...(x === "step" ? [] : [/** @type {[string, string]} */ (["x", x])]),
  ...(logX && canBeLog(x) ? [/** @type {[string, string]} */ (["logx", "1"])] : []),
];
