/** The charts of a report: the same as on the pages, drawn from the data in the file. */

import { background } from "./lib/charts/background.js";
import { overlay } from "./lib/charts/compare.js";
import { picture } from "./lib/charts/picture.js";
import { reading, SeriesSet } from "./lib/charts/series.js";
import { labelOf, STEPS } from "./lib/charts/timeaxis.js";
import { dashOf, inkOf } from "./lib/views/compareview.js";
import { gradNorm } from "./panels/grad-norm.js";
import { learningRate } from "./panels/learning-rate.js";
import { loss } from "./panels/loss.js";
import { metric } from "./panels/metric.js";
import { margins } from "./panels/figure.js";
import { Plots } from "./panels/plot.js";
import { scale } from "./panels/scale.js";

/**
 * @typedef {{ range: [number, number], names: string[], runs: Record<string, WireLayer[]>[], alerts: Alert[],
 *   restarts: number[] }} Data
 * @typedef {{ kind: import("./panels/panel.js").PanelKind, layers: Layer[][], plot: HTMLElement, hair:
 *   HTMLElement, readout: HTMLElement, log: boolean }} Chart layers: of each run
 */

const VITAL_SIGNS = new Map([loss, gradNorm, scale, learningRate].map((kind) => [kind.name, kind]));
const data = /** @type {Data} */ (JSON.parse(String(document.getElementById("charts")?.textContent)));
const sets = data.runs.map((series) => {
  const set = new SeriesSet();
  set.take({ run: "", cursor: 0, first_step: null, last_step: null, series });
  return set;
});
const charts = [...document.querySelectorAll("figure")].map((node, i) => chartOf(node, data.names[i]));

let range = data.range;
/** @type {number | null} the step that was clicked in the text */
let chosen = null;

/**
 * @param {HTMLElement} node
 * @param {string} name
 * @returns {Chart}
 */
function chartOf(node, name) {
  const part = (/** @type {string} */ selector) => /** @type {HTMLElement} */ (node.querySelector(selector));
  return {
    kind: VITAL_SIGNS.get(name) ?? metric(name),
    layers: sets.map((set) => set.get(name)),
    plot: part(".chart"),
    hair: part(".hair"),
    readout: part(".readout"),
    log: false,
  };
}

/**
 * @param {Chart} chart
 * @param {number} width
 * @returns {import("./panels/figure.js").Drawn}
 */
function drawn(chart, width) {
  const { layers, kind, log } = chart;
  const runs = layers.map((own, slot) => ({
    layers: own,
    ink: inkOf(slot),
    dash: dashOf(slot, layers.length),
    line: STEPS,
  }));
  const shown =
    layers.length === 1
      ? picture(kind.drawing, layers[0], [], range, width, log)
      : overlay(kind.drawing, runs, null, range, width, log, 0);
  chart.log = shown.plan.log;
  const scene = {
    range,
    last: data.range[1],
    alerts: data.alerts,
    events: [],
    chosen: null,
    restarts: data.restarts,
    timeline: STEPS,
  };
  return { picture: shown, ...background(scene, true), xticks: true };
}

function draw() {
  for (const chart of charts) plots.draw(chart.plot, (width) => drawn(chart, width));
  showAt(chosen);
}

/**
 * Show a line and the values at a step in all charts.
 *
 * @param {number | null} step
 */
function showAt(step) {
  const { left, right } = margins();
  const share = step === null ? -1 : (step - range[0]) / (range[1] - range[0]);
  for (const { kind, layers, hair, readout } of charts) {
    hair.hidden = !(share >= 0 && share <= 1);
    hair.style.setProperty("--x", `calc(${left}px + (100% - ${left + right}px) * ${share.toFixed(4)})`);
    readout.textContent = step === null ? "" : layers.map((own) => valueAt(kind, own, step)).join(" \u00b7 ");
  }
  say(step === null ? "" : labelOf(STEPS, step));
}

/**
 * @param {import("./panels/panel.js").PanelKind} kind
 * @param {Layer[]} layers
 * @param {number} step
 */
function valueAt(kind, layers, step) {
  const found = reading(layers, step);
  if (!found) return "\u2013";
  const { value, soft, bad } = kind.read(found.layer, found.i);
  return [value, soft && `(${soft})`, bad].filter(Boolean).join(" ");
}

/** @param {string} text */
function say(text) {
  const node = document.getElementById("here");
  if (node) node.textContent = text;
}

/** @param {number | null} step */
function choose(step) {
  chosen = step;
  if (step === null || step < range[0] || step > range[1]) range = data.range;
  draw();
  if (step !== null) charts[0]?.plot.scrollIntoView({ block: "nearest" });
}

/** @param {PointerEvent} event */
function hovered(event) {
  const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
  const { left, right } = margins();
  const share = (event.clientX - box.left - left) / (box.width - left - right);
  showAt(share < 0 || share > 1 ? chosen : Math.round(range[0] + share * (range[1] - range[0])));
}

function recolored() {
  dispatchEvent(new Event("themechange"));
  draw();
}

// Before Plots adds its own listener, so that it draws all charts in the colors of paper.
addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  for (const each of document.querySelectorAll("details")) each.open = true;
  recolored();
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.theme;
  recolored();
});
const plots = new Plots(/** @type {any} */ (globalThis).Plotly, (zoomed) => {
  range = zoomed ?? data.range;
  draw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolored);
for (const { plot } of charts) {
  plot.addEventListener("pointermove", hovered);
  plot.addEventListener("pointerleave", () => showAt(chosen));
}
document.addEventListener("click", (event) => {
  const button = /** @type {Element} */ (event.target).closest("button");
  if (button?.dataset.step) choose(Number(button.dataset.step));
  if (button?.id === "reset") choose(null);
});
draw();
