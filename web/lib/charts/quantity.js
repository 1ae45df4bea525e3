/**
 * One number of a run, for charts in which a run is a point or a bar: a setting (`config.lr`), or the last,
 * smallest or largest value of a metric (`last(loss)`, `min(val/loss)`, `max(acc)`).
 */

import { flatten, numberOf } from "../flatten.js";
import { number } from "../exact.js";

/**
 * @typedef {"config" | "last" | "min" | "max"} Source
 * @typedef {{ source: Source, name: string }} Quantity
 * @typedef {{ id: string, name: string, ink: string, config: unknown, metrics: Record<string,
 * MetricSummary> }}
 *   RunNumbers metrics: those that are loaded
 */

const CONFIG = "config.";
const CALLS = /** @type {const} */ (["last", "min", "max"]);

/**
 * @param {string} text
 * @returns {Quantity | null} null if it is not understood
 */
export function readQuantity(text) {
  const given = text.trim();
  if (given.startsWith(CONFIG)) {
    return given.length > CONFIG.length ? { source: "config", name: given.slice(CONFIG.length) } : null;
  }
  const call = CALLS.find((each) => given.startsWith(`${each}(`) && given.endsWith(")"));
  const name = call ? given.slice(call.length + 1, -1).trim() : given;
  return name ? { source: call ?? "last", name } : null;
}

/** @param {Quantity} quantity */
export const quantityText = ({ source, name }) =>
  source === "config" ? CONFIG + name : `${source}(${name})`;

/**
 * Return the number of a run, NaN and infinite ones included. A smallest or largest value is that of the
 * finite ones.
 *
 * @param {Quantity} quantity
 * @param {RunNumbers} run
 * @returns {number | null} null if it has none
 */
export function numberOfRun(quantity, run) {
  const { source, name } = quantity;
  if (source !== "config") return number(run.metrics[name]?.[source]);
  const value = numberOf(textOfRun(quantity, run) ?? undefined);
  return Number.isNaN(value) ? null : value;
}

/** @type {WeakMap<object, Map<string, string>>} settings by config, because a chart asks for many */
const flat = new WeakMap();

/**
 * @param {unknown} config
 * @returns {Map<string, string>}
 */
function settingsOf(config) {
  if (typeof config !== "object" || config === null) return new Map();
  const found = flat.get(config) ?? new Map(flatten(config));
  flat.set(config, found);
  return found;
}

/**
 * Return a setting as text; null if the run has none.
 *
 * @param {Quantity} quantity
 * @param {RunNumbers} run
 */
export const textOfRun = ({ name }, { config }) => settingsOf(config).get(name) ?? null;

/**
 * Return the quantities that can be chosen.
 *
 * @param {string[]} metrics
 * @param {unknown[]} configs
 */
export function quantities(metrics, configs) {
  const keys = [...new Set(configs.flatMap((config) => [...settingsOf(config).keys()]))].sort();
  return [
    ...metrics.flatMap((name) => CALLS.map((source) => ({ source, name }))),
    ...keys.map((name) => ({ source: /** @type {const} */ ("config"), name })),
  ].map(quantityText);
}
