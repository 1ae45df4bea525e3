/**
 * Bar chart of runs: one bar for each, the smallest value first; NaN and infinite values by name.
 *
 * Data: numbers of the runs (lib/charts/quantity.js). Draws: HTML elements.
 */

import { el } from "../../browser/dom.js";
import { textOfRun } from "../../lib/charts/quantity.js";
import { byValue } from "../../lib/charts/runcharts.js";
import { counted, dotted, num } from "../../lib/format.js";
import { runAddress } from "../../lib/route.js";

/** Bars in one chart. */
const MOST = 200;

/** @type {import("./index.js").RunChartKind} */
export const bar = {
  kind: "bar",
  title: "Bars",
  fields: ["Value"],
  draw: (runs, [quantity], _width, acts) => {
    const sorted = byValue(quantity, runs);
    const finite = sorted.flatMap(({ value }) => (Number.isFinite(value) ? [Number(value)] : []));
    const low = Math.min(0, ...finite);
    const high = Math.max(0, ...finite);
    const share = (/** @type {number} */ value) => (high > low ? (value - low) / (high - low) : 0);
    const rows = sorted.slice(0, MOST).map(({ run, value }) => {
      const drawn = value !== null && Number.isFinite(value);
      const from = drawn ? Math.min(share(0), share(value)) : 0;
      const wide = drawn ? Math.abs(share(value) - share(0)) : 0;
      const text = value === null ? (textOfRun(quantity, run) ?? "–") : num(value);
      return el(
        "li",
        { "data-run": run.id, onpointerenter: () => acts.point(run.id) },
        el("a", { href: runAddress(run.id), title: run.name }, run.name),
        el(
          "span.track",
          { "aria-hidden": "true" },
          el("i", {
            "--from": `${(from * 100).toFixed(2)}%`,
            "--wide": `${(wide * 100).toFixed(2)}%`,
            "--ink": `var(${run.ink})`,
          }),
        ),
        el("b", { class: value !== null && !drawn ? "is-critical" : "" }, text),
      );
    });
    return {
      node: el("ol.runbars", { tabindex: "0" }, ...rows),
      words: dotted(
        counted(runs.length, "run"),
        finite.length ? `${num(finite[0])} to ${num(finite[finite.length - 1])}` : "",
        sorted.length > MOST ? `the first ${MOST} by value` : "",
      ),
      missing: runs.length - finite.length,
    };
  },
};
