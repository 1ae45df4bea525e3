/**
 * View state of the compare page, stored in the address. It includes the colors, so that a run keeps its
 * color when others are added or removed.
 */

import { readRunCharts } from "../charts/runcharts.js";
import { readScales, scalePairs } from "./scales.js";
import { readSmoothing, smoothingPairs } from "./smoothing.js";
import { readX, xPairs } from "./xaxis.js";

/**
 * @typedef {import("../charts/groups.js").BandKind} BandKind
 * @typedef {import("../charts/sweep.js").Goal} Goal
 * @typedef {{ id: string, slot: number, hidden: boolean }} Entry
 */
/**
 * @typedef {{ runs: Entry[], base: string | null, difference: boolean, series:
 *   string[], from: number | null, to: number | null, at: number | null, full: string | null, same: boolean,
 *   group: string[], band: BandKind, metric: string, goal: Goal, charts: string[], standard: boolean } &
 *   import("./scales.js").Scales & import("./xaxis.js").XAxis &
 *   import("./smoothing.js").Smoothed} CompareView
 *   same: also show settings that are equal; group: by what runs are grouped; metric, goal: what settings are
 *   judged by; charts: of runs (lib/charts/runcharts.js); standard: the project's layout is not
 *   shown
 */

/**
 * Colors of the design. When they are used up they repeat with five dash styles, so that sixty runs look
 * different.
 */
export const COLORS = 10;
/**
 * As many runs as one page compares. If there are more, the page shows the first ones and says so.
 */
export const MOST_RUNS = 5_000;
/** With more runs than this, only groups are shown: a line and a row for each run would be too many. */
export const MOST_LISTED = 1_000;
/** As many runs as one report file can hold. */
export const MOST_REPORTED = 200;
const DASHES = ["", "6px,3px", "2px,2px", "10px,3px,2px,3px", "14px,5px", "10px,3px,2px,3px,2px,3px"];
const STYLES = COLORS * DASHES.length;
const ALIGN = ["step", "relative", "wall", "tokens"];
const GOALS = ["last", "last-high", "min", "max"];
const MOST_SERIES = 40;
/** As many keys as runs can be grouped by. */
const MOST_KEYS = 8;

/**
 * @param {number} slot
 * @returns {string} a design token
 */
export const inkOf = (slot) => `--run-${(slot % COLORS) + 1}`;
/**
 * Return the dash of a line. With more lines than there are styles, all lines are solid: dashes would not
 * distinguish runs, and a chart takes longer the more styles it has.
 *
 * @param {number} slot
 * @param {number} lines in one chart
 * @returns {string} as plotly takes it
 */
export const dashOf = (slot, lines) =>
  lines > STYLES ? "" : DASHES[Math.floor(slot / COLORS) % DASHES.length];

/** @param {string | null} text */
const num = (text) => (text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);

/**
 * @param {string} search
 * @returns {CompareView} unreadable values are ignored
 */
export function readCompare(search) {
  const asked = new URLSearchParams(search);
  const ids = [...new Set(asked.getAll("run"))].slice(0, MOST_RUNS);
  const slots = (asked.get("slots") ?? "").split(".").map(Number);
  const hidden = new Set(asked.getAll("hide"));
  /** @type {Set<number>} */
  const taken = new Set();
  let free = 0;
  const runs = ids.map((id, i) => {
    const given =
      asked.has("slots") &&
      Number.isInteger(slots[i]) &&
      slots[i] >= 0 &&
      slots[i] < MOST_RUNS &&
      !taken.has(slots[i]);
    const slot = given ? slots[i] : (free = firstFree(taken, free));
    taken.add(slot);
    return { id, slot, hidden: hidden.has(id) };
  });
  const from = num(asked.get("from"));
  const to = num(asked.get("to"));
  const zoom = from !== null && to !== null && to > from;
  const base = asked.get("base");
  const goal = asked.get("goal") ?? "last";
  return {
    runs,
    base: base !== null && ids.includes(base) ? base : null,
    ...readX(asked, ALIGN),
    ...(ids.length > MOST_LISTED ? { logX: false } : {}),
    ...readSmoothing(asked),
    difference: asked.get("difference") === "1",
    series: [...new Set(asked.getAll("series"))].slice(0, MOST_SERIES),
    ...readScales(asked),
    from: zoom ? from : null,
    to: zoom ? to : null,
    at: num(asked.get("at")),
    full: asked.get("full"),
    same: asked.get("same") === "1",
    group: [...new Set(asked.getAll("group"))].slice(0, MOST_KEYS),
    band: asked.get("band") === "range" ? "range" : "std",
    metric: asked.get("metric") || "loss",
    goal: /** @type {CompareView["goal"]} */ (GOALS.includes(goal) ? goal : "last"),
    charts: readRunCharts(asked),
    standard: asked.get("layout") === "standard",
  };
}

/**
 * @param {CompareView} view
 * @returns {string} "" or "?run=…"
 */
export function writeCompare(view) {
  const plain = view.runs.every((run, i) => run.slot === i);
  const pairs = /** @type {[string, string][]} */ ([
    ...view.runs.map(({ id }) => ["run", id]),
    ["slots", plain ? "" : view.runs.map((run) => run.slot).join(".")],
    ...view.runs.filter((run) => run.hidden).map(({ id }) => ["hide", id]),
    ["base", view.base ?? ""],
    ...xPairs(view),
    ...smoothingPairs(view),
    ["difference", view.difference ? "1" : ""],
    ...view.series.map((name) => ["series", name]),
    ...scalePairs(view),
    ["from", text(view.from)],
    ["to", text(view.to)],
    ["at", text(view.at)],
    ["full", view.full ?? ""],
    ["same", view.same ? "1" : ""],
    ...view.group.map((key) => ["group", key]),
    ["band", view.band === "std" ? "" : view.band],
    ["metric", view.metric === "loss" ? "" : view.metric],
    ["goal", view.goal === "last" ? "" : view.goal],
    ...view.charts.map((text) => ["chart", text]),
    ["layout", view.standard ? "standard" : ""],
  ]);
  const given = pairs.filter(([, value]) => value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** @param {number | null} v */
const text = (v) =>
  v === null ? "" : String(Math.abs(v) < 1 ? Number(v.toPrecision(6)) : Math.round(v * 1000) / 1000);

/**
 * The first color that no run uses.
 *
 * @param {Entry[]} runs
 */
export const freeSlot = (runs) => firstFree(new Set(runs.map((run) => run.slot)));

/**
 * @param {Set<number>} taken
 * @param {number} from all lower ones are taken
 */
function firstFree(taken, from = 0) {
  let slot = from;
  while (taken.has(slot)) slot++;
  return slot;
}

/**
 * @param {Entry[]} runs
 * @param {string} id
 */
export const withRun = (runs, id) =>
  runs.some((run) => run.id === id) || runs.length >= MOST_RUNS
    ? runs
    : [...runs, { id, slot: freeSlot(runs), hidden: false }];
