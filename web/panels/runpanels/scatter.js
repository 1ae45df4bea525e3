/**
 * Two metrics of a run against each other: a point for each step, later ones darker.
 *
 * Data: the feed of panels/metricpanels.js. Draws: SVG, with panels/runcharts/axes.js.
 */

import { el, refill, say, sizeObserver, svg } from "../../browser/dom.js";
import { customColumns, customTitle, resolve } from "../../lib/charts/customchart.js";
import { pairsOf } from "../../lib/charts/pairs.js";
import { numberAxis } from "../../lib/charts/runcharts.js";
import { spearman } from "../../lib/charts/rankcorrelation.js";
import { counted, dotted, int, num } from "../../lib/format.js";
import { chartFrame, placesIn } from "../runcharts/axes.js";

/** Points are drawn as this many paths, from the first steps to the last. */
const SHADES = 6;
/** The panel is drawn at most this often. */
const REST_MS = 500;
const KINDS = /** @type {const} */ ([
  ["auto", "Auto"],
  ["linear", "Linear"],
  ["log", "Log (powers of ten)"],
]);

/**
 * Return the name by which a view keeps the x axis of a chart; its y axis has the name of the chart.
 *
 * @param {string} name
 */
const acrossOf = (name) => `x:${name}`;

export class ScatterPanel {
  free = /** @type {const} */ (true);
  /** @type {string[]} */
  names = [];
  /** @type {import("../../lib/charts/customchart.js").Resolved} */
  #resolved = { lines: [], names: [], formula: null, problem: "", note: "" };
  /** @type {import("../../lib/charts/pairs.js").Pairs} */
  #found = { pairs: [], bad: 0, means: false };
  /** @type {((pair: { x: number, y: number }) => [number, number]) | null} */
  #at = null;
  /** @type {number | null} */
  #step = null;
  #drawn = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #waiting;
  /** @type {(name: string) => Layer[]} */
  #layersOf = () => [];
  /** @type {Record<string, string>} */
  #kinds = {};
  #isLog = { x: false, y: false };

  /**
   * @param {string} name
   * @param {import("./index.js").Frame} frame
   */
  constructor(name, frame) {
    this.kind = { name, title: customTitle(name) };
    this.words = el("p.micro.pad", { role: "status" });
    this.read = el("span.readout.muted");
    this.plot = el("div.runchart");
    this.node = el(
      "section.card.panel.freepanel",
      { "aria-label": this.kind.title, "data-series": name },
      el(
        "div.panelhead",
        {},
        frame.grip,
        el("h3", { title: this.kind.title }, this.kind.title),
        this.read,
        frame.menuOf(this),
      ),
      this.plot,
      this.words,
    );
    this.sizes = sizeObserver(() => this.#paint());
    this.sizes.observe(this.plot);
  }

  close() {
    clearTimeout(this.#waiting);
    this.sizes.disconnect();
  }

  /** @param {string[]} known */
  offer(known) {
    this.#resolved = resolve(this.kind.name, known);
    this.names = this.#resolved.names;
    if (this.#resolved.problem) say(this.words, this.#resolved.problem);
  }

  /**
   * @param {(name: string) => Layer[]} layersOf
   * @param {Record<string, string>} kinds of axes, by name
   */
  draw(layersOf, kinds) {
    this.#layersOf = layersOf;
    this.#kinds = kinds;
    this.#waiting ??= setTimeout(() => {
      this.#waiting = undefined;
      this.#paint();
    }, REST_MS);
  }

  #paint() {
    const width = Math.round(this.plot.clientWidth);
    const [across, up] = this.#resolved.names;
    if (!up || !width) return;
    this.#found = pairsOf([across, up], this.#layersOf);
    const { pairs, bad, means } = this.#found;
    const chosen = [acrossOf(this.kind.name), this.kind.name].map((name) => this.#kinds[name]);
    const key = JSON.stringify([width, bad, chosen, pairs]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    const xs = numberAxis(
      pairs.map(({ x }) => x),
      chosen[0],
    );
    const ys = numberAxis(
      pairs.map(({ y }) => y),
      chosen[1],
    );
    this.#isLog = { x: xs.log, y: ys.log };
    const placed = pairs.filter((pair) => Number.isFinite(xs.at(pair.x)) && Number.isFinite(ys.at(pair.y)));
    const { x, y } = placesIn(width);
    this.#at = (pair) => [x(xs.at(pair.x)), y(ys.at(pair.y))];
    this.ring = svg("circle", { class: "ring", r: 6, cx: -20, cy: -20 });
    const label = `${up} against ${across}, a point for each step`;
    const marks = [...this.#shades(placed), this.ring];
    refill(this.plot, chartFrame(label, width, { ...xs, label: across }, { ...ys, label: up }, marks));
    const rho = spearman(
      pairs.map((pair) => pair.x),
      pairs.map((pair) => pair.y),
    );
    say(
      this.words,
      dotted(
        pairs.length
          ? counted(placed.length, "point")
          : "No step in the window has finite values of both metrics.",
        placed.length < pairs.length
          ? `${int(pairs.length - placed.length)} not positive, not on a log axis`
          : "",
        rho === null || pairs.length < 3 ? "" : `rank correlation ${num(rho, 2)}`,
        bad ? `${int(bad)} not finite` : "",
        means ? "bucket means, exact when zoomed in" : "",
      ),
    );
    this.showAt(this.#step);
  }

  /** @param {import("../../lib/charts/pairs.js").Pair[]} pairs */
  #shades(pairs) {
    const size = Math.ceil(pairs.length / SHADES);
    return Array.from({ length: SHADES }, (_, i) => {
      const part = pairs.slice(i * size, (i + 1) * size);
      const d = part
        .map(
          (pair) =>
            `M${this.#at?.(pair)
              .map((px) => px.toFixed(1))
              .join(" ")}h0`,
        )
        .join("");
      return svg("path", { class: "points", d, "stroke-opacity": ((i + 1.5) / (SHADES + 1)).toFixed(2) });
    });
  }

  /** @param {number | null} step */
  showAt(step) {
    this.#step = step;
    const { pairs } = this.#found;
    const found = step === null ? undefined : [...pairs].reverse().find((pair) => pair.step <= step);
    say(this.read, found ? `${num(found.x)}, ${num(found.y)}` : "");
    const place = found && this.#at ? this.#at(found) : [];
    const [cx, cy] = place.length && place.every(Number.isFinite) ? place : [-20, -20];
    this.ring?.setAttribute("cx", String(cx));
    this.ring?.setAttribute("cy", String(cy));
  }

  /** @returns {import("./index.js").FreeAxis[]} */
  axes() {
    const { name } = this.kind;
    const { x, y } = this.#isLog;
    return [
      { head: "X axis", axis: "x", name: acrossOf(name), log: x, kinds: KINDS },
      { head: "Y axis", axis: "y", name, log: y, kinds: KINDS },
    ];
  }

  isEmpty() {
    return !this.names.length;
  }

  values() {
    const columns = customColumns(this.#resolved);
    return { title: this.kind.title, names: this.names, columns };
  }
}
