/** What a chart of several runs shows, in words: its text alternative for people who do not see it. */

import { int, num } from "../format.js";
import { NON_FINITE, sentences, turns } from "./inwords.js";
import { MARK_WORDS } from "./marks.js";

/** @typedef {{ id: string, x: number[], y: number[] }} Drawn a line of a comparison */

/** Up to this many runs of a comparison are described one by one. */
const MOST_RUNS = 4;
/** Of more runs, so many at each end are named. */
const MOST_NAMED = 3;

/**
 * Return what a chart of several runs shows: few of them one by one, of many the lowest and the highest.
 *
 * @param {Drawn[]} lines of the visible runs, in units of the x axis
 * @param {Mark[]} marks
 * @param {boolean} log
 * @param {{ nameOf: (id: string) => string, label: (x: number) => string,
 *   newest: Map<string, string> }} words newest: each run's last value as text
 */
export function describeRuns(lines, marks, log, { nameOf, label, newest }) {
  const runs = byRun(lines);
  if (!runs.length) return "No values.";
  const end = (/** @type {Drawn} */ run) => newest.get(run.id) ?? num(run.y[run.y.length - 1]);
  const parts =
    runs.length <= MOST_RUNS
      ? runs.map((run) => `${nameOf(run.id)}: ${courseOfLine(run, end(run), label, log)}`)
      : ranking(runs, (run) => `${nameOf(run.id)} ${end(run)}`);
  const kinds = NON_FINITE.map((kind) => {
    const found = marks.filter((mark) => mark.kind === kind);
    const count = found.reduce((sum, mark) => sum + mark.count, 0);
    const from = Math.min(...found.map((mark) => mark.x));
    return count
      ? `${int(count)} ${MARK_WORDS[kind]}, ${count > 1 ? "the first " : ""}at ${label(from)}`
      : "";
  });
  return sentences([...parts, ...kinds]);
}

/**
 * Return the finite points of each run; attempts follow each other.
 *
 * @param {Drawn[]} lines
 * @returns {Drawn[]} of runs with any
 */
function byRun(lines) {
  /** @type {Map<string, Drawn>} */
  const runs = new Map();
  for (const { id, x, y } of lines) {
    const run = runs.get(id) ?? { id, x: [], y: [] };
    y.forEach((value, i) => {
      if (!Number.isFinite(value)) return;
      run.x.push(x[i]);
      run.y.push(value);
    });
    runs.set(id, run);
  }
  return [...runs.values()].filter((run) => run.y.length);
}

/**
 * @param {Drawn} run
 * @param {string} end
 * @param {(x: number) => string} label
 * @param {boolean} log
 */
function courseOfLine({ x, y }, end, label, log) {
  const low = y.reduce((best, value, i) => (value < y[best] ? i : best), 0);
  const lowest = `lowest ${num(y[low])} at ${label(x[low])}`;
  const way = turns(y, log).toLowerCase();
  return [`starts at ${num(y[0])} and ends at ${end}`, lowest, way].filter(Boolean).join(", ");
}

/**
 * @param {Drawn[]} runs
 * @param {(run: Drawn) => string} text
 */
function ranking(runs, text) {
  const sorted = [...runs].sort((a, b) => a.y[a.y.length - 1] - b.y[b.y.length - 1]);
  const three = (/** @type {Drawn[]} */ some) => some.map(text).join(", ");
  return [
    `${int(runs.length)} runs`,
    `Lowest at their ends: ${three(sorted.slice(0, MOST_NAMED))}`,
    `Highest: ${three(sorted.slice(-MOST_NAMED).reverse())}`,
  ];
}
