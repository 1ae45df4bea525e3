/** What charts show behind the data: tints of alerts and announced changes, lines where something began. */

import { bands, bySeverity, isOpen } from "../alerts/attention.js";
import { leadsOf } from "../alerts/incidents.js";
import { expectedSpans } from "./flags.js";

/**
 * @typedef {Pick<import("../../panels/vitals.js").Scene, "range" | "last" | "alerts" | "events" | "chosen" |
 *   "restarts" | "timeline">} Behind
 *
 * @typedef {{ bands: import("../../panels/figure.js").Tint[], edges: import("../../panels/figure.js").Edge[],
 *   ticks: import("./timeticks.js").Ticks | null }} Background
 */

/** The most onset lines, because more would hide the data. The most urgent come first. */
const MOST_EDGES = 12;

/**
 * Return tints and lines behind the data, in units of the x axis: alerts, announced changes, attempts.
 *
 * @param {Behind} scene
 * @param {boolean} lines
 * @returns {Background}
 */
export function background(scene, lines) {
  const { toX, extent } = scene.timeline;
  const tints = [...expectedSpans(scene.events), ...bands(scene.alerts, scene.last)];
  const restarts = scene.restarts.map((x) => ({
    x,
    severity: /** @type {const} */ ("restart"),
    fired: false,
  }));
  const edges = lines
    ? [...restarts, ...edgesOf(leadsOf(scene.alerts, scene.chosen), scene.chosen)]
    : restarts;
  return {
    bands: tints
      .map((band) => {
        const [from, to] = extent(band.from, band.to);
        return { ...band, from, to };
      })
      .filter(({ from, to }) => from <= to),
    edges: edges.map((edge) => ({ ...edge, x: toX(edge.x) })).filter(({ x }) => Number.isFinite(x)),
    ticks: scene.timeline.ticks(scene.range),
  };
}

/**
 * Return lines where the most urgent alerts and the chosen one began and fired. Information is marked only
 * where it began, unless it is chosen. Resolved alerts keep only their tint. An alert that was firing when
 * its run ended keeps its lines.
 *
 * @param {Alert[]} alerts
 * @param {string | null} chosen
 * @returns {import("../../panels/figure.js").Edge[]}
 */
function edgesOf(alerts, chosen) {
  const shown = alerts
    .filter((alert) => isOpen(alert) || alert.state === "ended" || alert.id === chosen)
    .filter((alert) => alert.onset_step !== null)
    .sort(bySeverity)
    .slice(0, MOST_EDGES);
  return shown.flatMap((alert) => {
    const edges = [{ x: Number(alert.onset_step), severity: alert.severity, fired: false }];
    if (alert.severity === "info" && alert.id !== chosen) {
      return edges.map((edge) => ({ ...edge, small: true }));
    }
    const fired = alert.fired_step !== null && alert.fired_step !== alert.onset_step;
    return fired ? [...edges, { x: Number(alert.fired_step), severity: alert.severity, fired: true }] : edges;
  });
}
