/**
 * A logarithmic x axis: another axis with the logarithms of its positions. What is at or below zero is left
 * out.
 */

import { logAxis } from "./axis.js";
import { reordered } from "./reordered.js";
import { spanLabel } from "./timeticks.js";

/** Ticks of a logarithmic axis of times, in ms. */
const S = 1000;
const SPANS = [1, 10, 100, S, 10 * S, 60 * S, 600 * S, 3600 * S, 10 * 3600 * S, 86400 * S, 864000 * S];
const WITHOUT = { step: "at step 0 or below", relative: "at time 0", wall: "" };

/**
 * @param {import("./timeaxis.js").Timeline} line
 * @returns {import("./timeaxis.js").Timeline}
 */
export function logarithmic(line) {
  const log = (/** @type {number} */ x) => (x > 0 ? Math.log10(x) : NaN);
  return {
    ...line,
    title: `${line.title} (log)`,
    log: true,
    toX: (step) => log(line.toX(step)),
    toStep: (x) => line.toStep(10 ** x),
    extent: (from, to) => {
      const [low, high] = line.extent(from, to);
      return [log(low > 0 ? low : line.least()), log(high)];
    },
    steps: ([a, b]) => line.steps([10 ** a, 10 ** b]),
    project: (layer) => {
      const found = line.project(layer);
      // A bucket that begins at or below zero and ends above it is at its end.
      const x = found.x.map((each, i) => log(each > 0 ? each : found.x1[i]));
      return reordered(
        found,
        x,
        found.x1.map((each, i) => (Number.isFinite(x[i]) ? log(each) : NaN)),
      );
    },
    without: line.kind === "metric" ? `${line.without} above 0` : WITHOUT[line.kind],
    ticks: (range) => (line.kind === "relative" ? spans(range) : powers(range)),
  };
}

/**
 * @param {[number, number]} range
 * @returns {import("./timeticks.js").Ticks}
 */
function powers([a, b]) {
  const { ticks, labels } = logAxis(10 ** a, 10 ** b);
  return shown(ticks, labels, [a, b]);
}

/**
 * @param {[number, number]} range
 * @returns {import("./timeticks.js").Ticks}
 */
const spans = (range) =>
  shown(
    SPANS,
    SPANS.map((each) => spanLabel(each, each)),
    range,
  );

/**
 * @param {number[]} ticks
 * @param {string[]} labels
 * @param {[number, number]} range
 */
function shown(ticks, labels, [a, b]) {
  const inside = ticks.map((_, i) => i).filter((i) => Math.log10(ticks[i]) >= a && Math.log10(ticks[i]) <= b);
  return { values: inside.map((i) => Math.log10(ticks[i])), labels: inside.map((i) => labels[i]) };
}
