/**
 * The kinds of charts of runs: one module each in this folder, registered here.
 *
 * Data: none. Draws: each kind draws its own chart.
 */

import { bar } from "./bar.js";
import { histogram } from "./histogram.js";
import { scatter } from "./scatter.js";

/**
 * A kind of chart in which each run is a point, a bar or a count. `fields` are the labels of its quantities.
 *
 * @typedef {{ kind: string, title: string, fields: string[], draw: (runs:
 *   import("../../lib/charts/quantity.js").RunNumbers[], quantities:
 *   import("../../lib/charts/quantity.js").Quantity[], width: number, acts: RunActs) => Drawn }} RunChartKind
 * @typedef {{ point: (id: string | null) => void, show: (runs:
 *   import("../../lib/charts/quantity.js").RunNumbers[]) => void }} RunActs point: highlight a run; show:
 *   name
 *   the runs at a place
 * @typedef {{ node: Element, words: string, missing: number }} Drawn words: what the chart shows; missing:
 * runs
 *   without a finite value
 */

/** @type {RunChartKind[]} */
export const RUN_CHART_KINDS = [scatter, bar, histogram];
