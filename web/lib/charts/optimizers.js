/**
 * Runs with several optimizers, such as a GAN: the series of the first have plain names, those of the others
 * end with their optimizer's name ("loss/generator"). They are drawn in the charts of the first.
 */

import { VITAL_SERIES } from "./vitalsigns.js";

/** @typedef {{ name: string, series: string, ink: string, dash: string }} Companion */

/** The most optimizers drawn beside the first; the metrics below have the others. */
const MOST = 3;
const DASHES = ["6px,3px", "2px,2px", "8px,3px,2px,3px"];

/**
 * Return the same series of the other optimizers.
 *
 * @param {string} series
 * @param {Iterable<string> | null} reported names of all series of the run
 * @returns {Companion[]}
 */
export function companions(series, reported) {
  const all = new Set(reported ?? []);
  return [...all]
    .filter((name) => name.startsWith("stepped/"))
    .map((name) => name.slice("stepped/".length))
    .filter((name) => all.has(`${series}/${name}`))
    .sort()
    .slice(0, MOST)
    .map((name, i) => ({
      name,
      series: `${series}/${name}`,
      ink: `--run-${2 + i}`,
      dash: DASHES[i],
    }));
}

/**
 * Return the series that are drawn in the charts of the vital signs.
 *
 * @param {string[]} all names of all series of the run
 */
export const drawnBeside = (all) =>
  VITAL_SERIES.flatMap((name) => companions(name, all)).map(({ series }) => series);

/**
 * Return the name of the first optimizer, whose series have plain names; "" if unknown.
 *
 * @param {RunEvent[]} events
 */
export function firstOptimizer(events) {
  const found = events.find(({ kind, data }) => kind === "grad-norm-source" && data?.series === "");
  return String(found?.data?.optimizer ?? "");
}
