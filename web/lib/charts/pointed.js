/** What the tooltip at the pointer says about the chart of a run: one row for each line drawn there. */

import { int, num } from "../format.js";
import { at, finite } from "./buckets.js";
import { attemptInk } from "./picture.js";
import { leading, rankIn, ranksOf } from "./ranks.js";
import { badWords, heldReadout, meanReadout, scaleReadout } from "./readout.js";
import { reading } from "./series.js";

/**
 * @typedef {{ name: string, text: string, soft: string, bad: string, ink: string }} PointedRow soft: the
 *   range of the bucket; bad: its non-finite values, by name
 * @typedef {{ rows: PointedRow[], note: string, t: number }} Pointed note: which records the first row is
 *   of; t: when they were recorded, in ms
 * @typedef {{ title: string, color: string, read: import("../../panels/panel.js").PanelKind["read"] }} Shown
 */

/**
 * @param {Shown} kind
 * @param {Layer[]} layers newest attempt first
 * @param {number} step
 * @param {import("./picture.js").Look} look
 * @param {number | null} [smoothed] the smoothed value there, if the line is smoothed
 * @returns {Pointed | null} null if nothing was recorded until that step
 */
export function pointed(kind, layers, step, look, smoothed = null) {
  const ordered = leading(layers, rankIn(look.ranks));
  const found = reading(ordered, step);
  if (!found) return null;
  const first = rowOf(kind, found, nameOf(kind, layers, found.layer), kind.color);
  return {
    rows: [
      smoothed === null || /NaN|Inf/.test(first.text) ? first : withSmoothed(first, smoothed),
      ...ofRanks(kind, layers, found.layer, step, look),
      ...ofAttempts(kind, ordered, found.layer.attempt, step, look),
    ],
    note: noteOf(kind, found, step),
    t: found.layer.t[found.i],
  };
}

/**
 * @param {Shown} kind
 * @param {{ layer: Layer, i: number }} found
 * @param {string} name
 * @param {string} ink
 * @returns {PointedRow}
 */
export function rowOf(kind, { layer, i }, name, ink) {
  const { value, soft, bad } = kind.read(layer, i);
  const held = kind.read !== meanReadout;
  const range = held && layer.max[i] > layer.min[i] ? between(layer.min[i], layer.max[i]) : "";
  const words = held && layer.n[i] > 1 ? badWords(layer, i) : bad;
  return {
    name,
    text: value,
    soft: [soft, range].filter(Boolean).join(" · "),
    bad: words === value ? "" : words,
    ink,
  };
}

/**
 * @param {number} low
 * @param {number} high
 */
const between = (low, high) => `${num(low, 3)} … ${num(high, 3)}`;

/**
 * @param {PointedRow} row
 * @param {number} value
 * @returns {PointedRow}
 */
const withSmoothed = (row, value) => ({ ...row, text: num(value), soft: `raw ${row.soft || row.text}` });

/**
 * @param {Shown} kind
 * @param {Layer[]} layers
 * @param {Layer} layer
 */
function nameOf(kind, layers, layer) {
  const attempts = new Set(layers.map((each) => each.attempt)).size;
  return [
    kind.title,
    attempts > 1 ? `attempt ${layer.attempt}` : "",
    ranksOf(layers).length > 1 ? `rank ${layer.rank}` : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

/**
 * The other ranks of the attempt: a row for each if each has a line, else one for all of them.
 *
 * @param {Shown} kind
 * @param {Layer[]} layers
 * @param {Layer} main
 * @param {number} step
 * @param {import("./picture.js").Look} look
 * @returns {PointedRow[]}
 */
function ofRanks(kind, layers, main, step, look) {
  const all = layers.filter((layer) => layer.attempt === main.attempt);
  if (all.length < 2) return [];
  const there = all.map((layer) => ({ layer, i: at(layer.x, step) })).filter(({ i }) => i >= 0);
  if (look.ranks === "each") {
    return there
      .filter(({ layer }) => layer !== main)
      .map((found) => rowOf(kind, found, `rank ${found.layer.rank}`, kind.color));
  }
  const good = there.filter(({ layer, i }) => finite(layer, i));
  const faulty = there.filter(({ layer, i }) => badWords(layer, i)).length;
  return [
    {
      name: `all ${int(all.length)} ranks`,
      text: good.length
        ? between(
            Math.min(...good.map(({ layer, i }) => layer.min[i])),
            Math.max(...good.map(({ layer, i }) => layer.max[i])),
          )
        : "–",
      soft: "",
      bad: faulty ? `NaN or Inf on ${int(faulty)}` : "",
      ink: kind.color,
    },
  ];
}

/**
 * The older attempts that are shown in full, where they have records.
 *
 * @param {Shown} kind
 * @param {Layer[]} ordered
 * @param {number} newest
 * @param {number} step
 * @param {import("./picture.js").Look} look
 * @returns {PointedRow[]}
 */
function ofAttempts(kind, ordered, newest, step, look) {
  return (look.older ?? [])
    .filter((attempt) => attempt !== newest)
    .flatMap((attempt) => {
      const layer = ordered.find((each) => each.attempt === attempt);
      const i = layer && step <= layer.x1[layer.x1.length - 1] ? at(layer.x, step) : -1;
      return layer && i >= 0 ? [rowOf(kind, { layer, i }, `attempt ${attempt}`, attemptInk(attempt))] : [];
    });
}

/**
 * "mean of 20 records, steps 100 to 119"; "recorded at step 500" if the step itself has no record.
 *
 * @param {Shown} kind
 * @param {{ layer: Layer, i: number }} found
 * @param {number} step
 */
function noteOf(kind, { layer, i }, step) {
  const held = [heldReadout, scaleReadout].includes(kind.read);
  if (layer.n[i] > 1) {
    const steps =
      layer.x1[i] > layer.x[i]
        ? `steps ${int(layer.x[i])} to ${int(layer.x1[i])}`
        : `step ${int(layer.x[i])}`;
    return `${held ? "last" : "mean"} of ${int(layer.n[i])} records, ${steps}`;
  }
  return layer.x[i] === step ? "" : `recorded at step ${int(layer.x[i])}`;
}
