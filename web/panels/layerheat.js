/**
 * A heat map of gradient norms: layers by steps.
 *
 * Data: layers.js loads one window at a time. Draws: a canvas, from lib/charts/heat.js.
 */

import { el, refill, say } from "../browser/dom.js";
import { cellKind, firstFault, shade, unpackMatrix } from "../lib/charts/heat.js";
import { dotted, int, num } from "../lib/format.js";
import { color } from "./figure.js";

/** Height of the map in pixels, and the smallest and largest height of a layer's row. */
const TALL = 420;
const ROW = { least: 3, most: 18 };
/** The minimum distance between the names beside the map. */
const NAME_PX = 13;

/** @typedef {import("../lib/charts/heat.js").LayersAnswer} LayersAnswer */

/** Gradient norms by layer and step: shows where and in which layer a problem began. */
export class LayerHeat {
  /** @type {LayersAnswer | null} */
  answer = null;
  /** @type {{ rows: number, columns: number, values: Float64Array } | null} */
  matrix = null;
  /** @type {number | null} */
  onset = null;
  /** @type {[number, number] | null} row and column of the readout */
  at = null;

  /**
   * @param {{ chose: (series: string) => void, go: (step: number) => void }} source
   */
  constructor(source) {
    this.source = source;
    this.what = el("span.muted");
    this.readout = el("span.readout", { role: "status" });
    this.choice = /** @type {HTMLSelectElement} */ (
      el("select", {
        "aria-label": "Optimizer",
        hidden: true,
        onchange: () => source.chose(this.choice.value),
      })
    );
    this.canvas = /** @type {HTMLCanvasElement} */ (
      el("canvas", {
        tabindex: "0",
        role: "img",
        "aria-label": "Gradient norms by layer and step",
        onpointermove: (/** @type {PointerEvent} */ event) => this.#point(event),
        onpointerleave: () => this.#showAt(null),
        onclick: () => this.#chosen(),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      })
    );
    this.names = el("div.heatnames", { "aria-hidden": "true" });
    this.steps = el("div.heatsteps.micro", { "aria-hidden": "true" });
    this.note = el("p.micro.pad");
    this.node = el(
      "section.card.heat",
      { "aria-label": "Gradient norms by layer", hidden: true },
      el("div.panelhead", {}, el("h3", {}, "Gradient norm by layer"), this.what, this.choice, this.readout),
      el("div.heatgrid", {}, this.names, this.canvas, this.steps),
      this.note,
    );
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.node);
  }

  /**
   * @param {LayersAnswer} answer
   * @param {number | null} onset
   */
  show(answer, onset) {
    this.answer = answer;
    this.matrix = unpackMatrix(answer.norms);
    this.draw(onset);
  }

  /** @param {Error} error */
  failed(error) {
    say(this.note, `The layer norms did not load: ${error.message}`);
  }

  /** @param {number | null} onset step at which the chosen alert began */
  draw(onset = this.onset) {
    this.onset = onset;
    const { answer, matrix } = this;
    if (!answer || !matrix) return;
    this.node.hidden = !matrix.columns;
    this.choice.hidden = answer.all_series.length < 2;
    if (this.choice.options.length !== answer.all_series.length) {
      refill(
        this.choice,
        ...answer.all_series.map((name) => el("option", { value: name }, name || "primary")),
      );
    }
    if (!matrix.columns) return;
    this.row = Math.min(ROW.most, Math.max(ROW.least, TALL / matrix.rows));
    const width = Math.round(this.canvas.clientWidth);
    const height = Math.round(this.row * matrix.rows);
    const ratio = devicePixelRatio || 1;
    if (!width) return;
    this.canvas.style.setProperty("--h", `${height}px`);
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    this.#paint(matrix, width / matrix.columns, this.row, ratio);
    this.#label(answer, matrix);
  }

  /**
   * @param {{ rows: number, columns: number, values: Float64Array }} matrix
   * @param {number} w
   * @param {number} h
   * @param {number} ratio
   */
  #paint({ rows, columns, values }, w, h, ratio) {
    const pen = this.canvas.getContext("2d");
    const dark = shade(values);
    const [bad, line, ink, faint] = ["--critical-fill", "--run-1", "--surface", "--line-strong"].map(color);
    if (!pen) return;
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, w * columns, h * rows);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const v = values[row * columns + column];
        const kind = cellKind(v);
        const x = column * w;
        const y = row * h;
        if (kind === "none") continue;
        pen.globalAlpha = kind === "value" ? 0.06 + 0.94 * dark(v) : kind === "zero" ? 0.5 : 1;
        pen.fillStyle = kind === "value" ? line : kind === "zero" ? faint : bad;
        if (kind === "zero") pen.fillRect(x, y + h / 2 - 0.5, Math.max(1, w - 0.5), 1);
        else pen.fillRect(x, y, w + 0.3, Math.max(1, h - (h > 5 ? 1 : 0)));
        if (kind === "nan" || kind === "inf") {
          fault(pen, ink, kind, x + w / 2, y + h / 2, Math.min(w, h) / 2 - 1);
        }
      }
    }
    pen.globalAlpha = 1;
  }

  /**
   * @param {LayersAnswer} answer
   * @param {{ rows: number, columns: number, values: Float64Array }} matrix
   */
  #label(answer, matrix) {
    const every = Math.ceil(NAME_PX / (this.row ?? ROW.most));
    const { steps, layers } = answer;
    const last = steps.length - 1;
    refill(
      this.names,
      ...layers.map((name, row) =>
        row % every
          ? null
          : el(
              "span.clip",
              {
                title: name,
                "--y": `${(row * (this.row ?? 0)).toFixed(1)}px`,
                "--lh": `${Math.max(NAME_PX, this.row ?? 0)}px`,
              },
              name,
            ),
      ),
    );
    refill(
      this.steps,
      el("span", {}, int(steps[0])),
      el("span", {}, this.#onsetText(steps)),
      el("span", {}, int(steps[last])),
    );
    const fault = firstFault(matrix);
    const found = fault ? faultText(fault, answer) : "All norms are finite.";
    say(
      this.what,
      `${int(layers.length)} layers, ${int(steps.length)} of the steps ` +
        `${int(steps[0])} – ${int(steps[last])}${answer.truncated ? ", the newest" : ""}`,
    );
    say(
      this.note,
      `${found} A stronger color is larger (log scale); ✕ NaN, △ Inf, thin line: zero, empty: no gradient.`,
    );
    this.canvas.setAttribute(
      "aria-label",
      `Gradient norms of ${layers.length} layers at ${steps.length} steps. ${found} ` +
        "Arrow keys read single values, Enter shows the step in the charts.",
    );
    this.#showAt(this.at);
  }

  /** @param {number[]} steps */
  #onsetText(steps) {
    return this.onset !== null && this.onset >= steps[0] && this.onset <= steps[steps.length - 1]
      ? `onset ${int(this.onset)}`
      : "";
  }

  /** @param {PointerEvent} event */
  #point(event) {
    const box = this.canvas.getBoundingClientRect();
    const { rows = 0, columns = 0 } = this.matrix ?? {};
    this.#showAt([
      Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)),
      Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns)),
    ]);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { rows = 0, columns = 0 } = this.matrix ?? {};
    const [row, column] = this.at ?? [0, columns - 1];
    const next = /** @type {Record<string, [number, number]>} */ ({
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
    })[event.key];
    if (event.key === "Enter") return this.#chosen();
    if (!next) return;
    event.preventDefault();
    this.#showAt([Math.min(rows - 1, Math.max(0, next[0])), Math.min(columns - 1, Math.max(0, next[1]))]);
  }

  #chosen() {
    const step = this.at && this.answer?.steps[this.at[1]];
    if (typeof step === "number") this.source.go(step);
  }

  /** @param {[number, number] | null} at */
  #showAt(at) {
    this.at = at;
    if (!at || !this.answer || !this.matrix) return say(this.readout, "");
    const [row, column] = at;
    const v = this.matrix.values[row * this.matrix.columns + column];
    const value = v < 0 ? "no gradient" : num(v);
    say(this.readout, dotted(this.answer.layers[row], `step ${int(this.answer.steps[column])}`, value));
  }

  close() {
    this.sizes.disconnect();
  }
}

/**
 * @param {{ column: number, rows: number[] }} fault
 * @param {LayersAnswer} answer
 */
function faultText({ column, rows }, { steps, layers }) {
  const names = rows.slice(0, 3).map((row) => layers[row]);
  const more = rows.length > 3 ? ` and ${int(rows.length - 3)} more of ${int(layers.length)}` : "";
  return `First non-finite value at step ${int(steps[column])}: ${names.join(", ")}${more}.`;
}

/**
 * A cross for NaN, a triangle for Inf, so that they differ without color.
 *
 * @param {CanvasRenderingContext2D} pen
 * @param {string} ink
 * @param {"nan" | "inf"} kind
 * @param {number} x
 * @param {number} y
 * @param {number} r
 */
function fault(pen, ink, kind, x, y, r) {
  if (r < 1.5) return;
  pen.globalAlpha = 1;
  pen.strokeStyle = ink;
  pen.beginPath();
  if (kind === "nan") {
    pen.moveTo(x - r, y - r);
    pen.lineTo(x + r, y + r);
    pen.moveTo(x - r, y + r);
    pen.lineTo(x + r, y - r);
  } else {
    pen.moveTo(x - r, y + r);
    pen.lineTo(x, y - r);
    pen.lineTo(x + r, y + r);
    pen.closePath();
  }
  pen.stroke();
}
