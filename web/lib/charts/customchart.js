/**
 * Charts that the reader composed: several metrics by list or pattern, a formula, the spread of a metric
 * over ranks, two metrics against each other, or media. As text ("list:a\nb", "match:^train/", "formula:a
 * - b", "spread:loss"), it is their
 * name on the page and in the address.
 */

import { number } from "../exact.js";
import { isQuick, QUICK } from "../runs/quickpattern.js";
import { combined } from "./combined.js";
import { readFormula } from "./formula.js";
import { spreadOf } from "./rankstats.js";

/**
 * @typedef {"list" | "match" | "formula" | "spread" | "scatter" | "media"}
 *   CustomKind
 * @typedef {{ name: string, series: string, ink: string, dash: string }} CustomLine series: "" if computed
 * @typedef {{ lines: CustomLine[], names: string[], formula: import("./formula.js").Formula | null,
 *   spread?: boolean, problem: string, note: string }} Resolved names: the series to load; spread: over ranks
 * @typedef {{ name: string, layers: Layer[], ink: string, dash: string }} CustomData
 */

const CUSTOM_KINDS = /** @type {const} */ (["list", "match", "formula", "spread", "scatter", "media"]);
/** Kinds with a metric on each line. */
const BY_LINE = ["list", "scatter"];
/** Charts in one address. */
export const MOST_CUSTOM = 20;
/** Lines in one chart; more can't be distinguished. */
const MOST_LINES = 16;
/** Characters in one chart's text, for the address. */
const LONGEST_TEXT = 2_000;
const INKS = 8;
/** Letters of a name that a pattern sees, so that none takes long. */
const MATCHED = 100;

/**
 * @param {CustomKind} kind
 * @param {string} text
 */
export const customName = (kind, text) =>
  `${kind}:${(BY_LINE.includes(kind) ? listed(text).join("\n") : text.trim()).slice(0, LONGEST_TEXT)}`;

/**
 * @param {string} name
 * @returns {{ kind: CustomKind, text: string } | null} null if it is no composed chart
 */
export function customOf(name) {
  const kind = CUSTOM_KINDS.find((each) => name.startsWith(`${each}:`));
  const text = kind ? name.slice(kind.length + 1) : "";
  return kind && text.trim() && text.length <= LONGEST_TEXT ? { kind, text } : null;
}

/**
 * Return the charts of an address; unreadable ones are ignored.
 *
 * @param {URLSearchParams} asked
 */
export const readCustom = (asked) =>
  [...new Set(asked.getAll("panel").filter(customOf))].slice(0, MOST_CUSTOM);

/**
 * Add a chart in front, or put it in the place of another.
 *
 * @param {{ panels: string[], pins: string[] }} view
 * @param {string | null} before
 * @param {string} made
 */
export function withChart({ panels, pins }, before, made) {
  if (before === null) {
    const rest = panels.filter((each) => each !== made);
    return { panels: [made, ...rest].slice(0, MOST_CUSTOM), pins };
  }
  const replaced = (/** @type {string[]} */ names) => [
    ...new Set(names.map((each) => (each === before ? made : each))),
  ];
  return { panels: replaced(panels), pins: replaced(pins) };
}

/**
 * @param {{ panels: string[], pins: string[] }} view
 * @param {string} name
 */
export const withoutChart = ({ panels, pins }, name) => ({
  panels: panels.filter((each) => each !== name),
  pins: pins.filter((each) => each !== name),
});

/** @param {string} name */
export function customTitle(name) {
  const { kind = "list", text = name } = customOf(name) ?? {};
  const words = { list: listed(text).join(", "), match: `matching ${text}`, spread: `spread of ${text}` };
  const [across, up] = listed(text);
  return { ...words, scatter: `${up} against ${across}`, formula: text, media: text }[kind];
}

/**
 * @param {string} text one name a line
 * @returns {string[]}
 */
const listed = (text) => [...new Set(text.split("\n").map((each) => each.trim()))].filter(Boolean);

/**
 * Return what a chart shows of a run that reports the series `known`, or why it shows nothing.
 *
 * @param {string} name
 * @param {string[]} known
 * @returns {Resolved}
 */
export function resolve(name, known) {
  const custom = customOf(name);
  if (!custom) return nothing("This chart is not understood.");
  if (custom.kind === "media") return { ...nothing(""), lines: [lineOf(custom.text.trim())] };
  if (custom.kind === "scatter") return ofTwo(listed(custom.text), known);
  if (custom.kind === "spread") return ofSpread(custom.text, known);
  if (custom.kind === "formula") return ofFormula(custom.text, known);
  return custom.kind === "match" ? ofPattern(custom.text, known) : ofList(listed(custom.text), known);
}

/**
 * @param {string} problem
 * @returns {Resolved}
 */
const nothing = (problem) => ({ lines: [], names: [], formula: null, problem, note: "" });

/**
 * @param {string} text
 * @param {string[]} known
 */
function ofFormula(text, known) {
  try {
    const formula = readFormula(text, known);
    return { lines: [lineOf(text)], names: formula.names, formula, problem: "", note: "" };
  } catch (error) {
    return nothing(/** @type {Error} */ (error).message);
  }
}

/** @param {string} name */
const lineOf = (name) => ({ name, series: "", ink: "--run-1", dash: "" });

/**
 * @param {string[]} names
 * @param {string[]} known
 * @returns {Resolved}
 */
function ofTwo(names, known) {
  if (names.length !== 2) return nothing("Enter two metrics, one per line: the x axis, then the y axis.");
  const absent = names.find((name) => !known.includes(name));
  if (absent !== undefined) return nothing(`This run reports no metric “${absent}”.`);
  return { ...nothing(""), lines: names.map((name) => ({ ...lineOf(name), series: name })), names };
}

/**
 * @param {string} text a metric
 * @param {string[]} known
 * @returns {Resolved}
 */
function ofSpread(text, known) {
  const name = text.trim();
  if (!known.includes(name)) return nothing(`This run reports no metric “${name}”.`);
  return {
    lines: [lineOf(`spread of ${name}`)],
    names: [name],
    formula: null,
    spread: true,
    problem: "",
    note: "",
  };
}

/**
 * @param {string} text
 * @param {string[]} known
 */
function ofPattern(text, known) {
  if (!isQuick(text)) return nothing(`Expected ${QUICK}.`);
  try {
    const pattern = new RegExp(text, "i");
    const found = known.filter((each) => pattern.test(each.slice(0, MATCHED)));
    return found.length ? withLines(found, "") : nothing(`No metric of this run matches ${text}.`);
  } catch {
    return nothing(`“${text}” is not a regular expression.`);
  }
}

/**
 * @param {string[]} names
 * @param {string[]} known
 */
function ofList(names, known) {
  const found = names.filter((each) => known.includes(each));
  const absent = names.filter((each) => !known.includes(each));
  const note = absent.length ? `not reported: ${absent.join(", ")}` : "";
  return found.length ? withLines(found, note) : nothing(`This run reports none of ${names.join(", ")}.`);
}

/**
 * @param {string[]} series
 * @param {string} note
 * @returns {Resolved}
 */
function withLines(series, note) {
  const names = series.slice(0, MOST_LINES);
  const more = series.length > MOST_LINES ? `${MOST_LINES} of ${series.length} metrics` : "";
  const lines = names.map((name, i) => ({
    name,
    series: name,
    ink: `--run-${1 + (i % INKS)}`,
    dash: i < INKS ? "" : "6px,3px",
  }));
  return { lines, names, formula: null, problem: "", note: [more, note].filter(Boolean).join(" · ") };
}

/**
 * Return the layers of each line of a chart.
 *
 * @param {Resolved} resolved
 * @param {(name: string) => Layer[]} layersOf
 * @returns {CustomData[]}
 */
export const customData = ({ lines, formula, spread, names }, layersOf) =>
  lines.map(({ name, series, ink, dash }) => ({
    name,
    layers: formula ? combined(formula, layersOf) : spread ? spreadOf(layersOf(names[0])) : layersOf(series),
    ink,
    dash,
  }));

/**
 * Return whether a chart is computed from means of several records here. Zoomed in, it is exact.
 *
 * @param {Resolved} resolved
 * @param {(name: string) => Layer[]} layersOf
 */
export const usesMeans = ({ formula, spread, names }, layersOf) =>
  Boolean(formula || spread) &&
  names.some((name) => layersOf(name).some(({ n }) => n.some((count) => count > 1)));

/**
 * Return what each line is at a record; a formula has a value where all its metrics have one.
 *
 * @param {Resolved} resolved
 * @returns {{ head: string, of: (values: Record<string, unknown>) => unknown }[]}
 */
export function customColumns({ lines, names, formula, spread }) {
  if (spread) return names.map(columnOf);
  if (!formula) return lines.map(({ series }) => columnOf(series));
  const of = (/** @type {Record<string, unknown>} */ values) => {
    const operands = names.map((name) => number(values[name])).filter((value) => value !== null);
    return operands.length === names.length ? formula.value(operands) : undefined;
  };
  return [...names.map(columnOf), { head: lines[0].name, of }];
}

/** @param {string} name */
const columnOf = (name) => ({
  head: name,
  of: (/** @type {Record<string, unknown>} */ values) => values[name],
});

/**
 * Return why a formula has no values, although all its series are reported; "" if it has some, or while they
 * are loading.
 *
 * @param {Resolved} resolved
 * @param {CustomData[]} data
 * @param {(name: string) => Layer[]} layersOf
 */
export function whyEmpty({ formula, spread, names }, data, layersOf) {
  if (!(formula || spread) || data.some(({ layers }) => layers.some((layer) => layer.x.length))) return "";
  if (spread) return "No step in the window has records of two ranks.";
  const without = names.filter((name) => !layersOf(name).some((layer) => layer.x.length));
  return without.length
    ? `No records here: ${without.join(", ")}.`
    : `No step in the window has a record of all of ${names.join(", ")}.`;
}
