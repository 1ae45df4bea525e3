/**
 * The charts of the comparison: one panel for each vital sign and each chosen series, with the lines of all
 * runs on one axis and one cross line through all panels.
 *
 * Data: data/comparison.js turns the loaded series into pictures. Draws: panels/plot.js.
 */

import { el, refill, say, svg } from "../browser/dom.js";
import { loadPlotly } from "../browser/plotly.js";
import { valuesAt } from "../data/comparisonrows.js";
import { byDistance, nearest } from "../lib/charts/compare.js";
import { groupsAt } from "../lib/charts/groups.js";
import { pathOf } from "../lib/charts/path.js";
import { describeRuns } from "../lib/charts/runsinwords.js";
import { STEPS } from "../lib/charts/timeaxis.js";
import { dotted, moment } from "../lib/format.js";
import { inkOf } from "../lib/views/compareview.js";
import { xMetric } from "../lib/views/xaxis.js";
import { drawingOf } from "../lib/views/scales.js";
import { CrossLine } from "./crossline.js";
import { isMetric, metric } from "./metric.js";
import { Panel } from "./panel.js";
import { boxed, panelMenu } from "./panelmenu.js";
import { PanelTooltip } from "./paneltooltip.js";
import { margins } from "./figure.js";
import { Plots } from "./plot.js";
import { KINDS } from "./vitals.js";

/** @typedef {import("../lib/views/compareview.js").CompareView} CompareView */

const AXIS_PX = 18;
const ABSENT = "not reported by these runs";
/** The first drawing waits this long for all runs: a drawing of some of them delays the others. */
const FIRST_MS = 400;
/** Charts are redrawn at least this often while runs still load. */
const LOADING_MS = 6_000;
/** How often that is checked. */
const AGAIN_MS = 250;
/** Space above a plot's drawing, and below it if it has no ticks (plot.js). */
const PLOT_TOP = 6;
/** The line nearest to the pointer is highlighted if it is within this many pixels. */
const REACH_PX = 12;

/**
 * What the charts need from the page. `pointed` receives the position of the cross line, `lit` the
 * highlighted run.
 *
 * @typedef {{ data: import("../data/comparison.js").Comparison, view: () => CompareView, set: (change:
 *   Partial<CompareView>) => void, pointed: (x: number | null) => void, lit: (id: string | null) => void }}
 *   CompareSource
 */

export class CompareBoard {
  /** @type {Plots | null} */
  plots = null;
  /** @type {Panel[]} */
  panels = [];
  /** @type {Panel | null} the lowest open panel, which has the axis of all */
  bottom = null;
  closed = false;
  /** Width of the charts in pixels, cached because reading it for every record would force a layout. */
  width = 0;
  /** @type {string | null} the highlighted run */
  lit = null;
  #panelKey = "";
  #frame = 0;
  #drew = -Infinity;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #waiting;
  /** @type {number | null} when the first run had arrived */
  #arriving = null;
  /** Runs loaded by then. */
  #drawn = 0;

  /** @param {CompareSource} source */
  constructor(source) {
    this.source = source;
    this.data = source.data;
    const label = el("span");
    this.line = el("div.cross", { hidden: true, "aria-hidden": "true" }, label);
    this.node = el("section.card.vitals.compare", {
      tabindex: "0",
      "aria-label": "Charts of all runs on one axis. Arrow keys move the cross line, Escape releases it.",
    });
    this.cross = new CrossLine(this.node, this.line, label, {
      width: () => this.width,
      range: () => this.data.range(),
      timeline: () => STEPS,
      label: (x) => this.#label(x),
      smallest: () => (source.view().logX || xMetric(source.view().x) !== null ? 0 : 1),
      margins,
      pointed: source.pointed,
      pinned: (x) => {
        source.set({ at: x === null ? null : this.data.natural(x) });
        this.tooltip.pinned(x);
      },
    });
    this.tooltip = new PanelTooltip(this.node, {
      panels: () => this.panels,
      range: () => this.data.range(),
      timeline: () => STEPS,
      content: (spot) => this.#content(spot),
      rounded: (at) => this.cross.rounded(at),
      pointed: (spot) => this.#pointed(spot),
      release: () => this.cross.release(),
    });
    this.sizes = new ResizeObserver(([entry]) => {
      this.width = entry.contentRect.width;
      this.cross.refresh();
    });
    this.sizes.observe(this.node);
  }

  close() {
    this.closed = true;
    this.sizes.disconnect();
    clearTimeout(this.#waiting);
    cancelAnimationFrame(this.#frame);
    this.tooltip.close();
    this.plots?.close();
  }

  /** @param {App["session"]["plotly"]} address */
  async load(address) {
    const plotly = await loadPlotly(address);
    if (this.closed) return;
    this.plots = new Plots(
      plotly,
      (range) => this.#zoomed(range),
      (plot, range) => {
        const change = boxed(this.panels, plot, range, this.source.view());
        if (change) this.source.set(change);
      },
    );
    this.drawSoon();
  }

  /** @param {[number, number] | null} range null: everything */
  #zoomed(range) {
    const [from, to] = range?.map((x) => this.data.natural(x)) ?? [null, null];
    this.source.set({ from, to });
  }

  /** Create a panel for each vital sign and each chosen series. */
  arrange() {
    const view = this.source.view();
    const kinds = [
      ...KINDS,
      ...view.series.filter(isMetric).map((name) => ({ ...metric(name), height: 150 })),
    ];
    const key = kinds.map((kind) => kind.name).join("\n");
    this.node.classList.toggle("is-full", view.full !== null);
    if (key !== this.#panelKey) {
      this.#panelKey = key;
      for (const panel of this.panels) this.plots?.drop(panel.plot);
      const menuOf = (/** @type {Panel} */ panel) => panelMenu(this.#host(), panel);
      this.panels = kinds.map(
        (kind, i) => new Panel(kind, { tall: i === kinds.length - 1 ? AXIS_PX : 0, menuOf }),
      );
      refill(this.node, ...this.panels.map((panel) => panel.node), this.line, this.tooltip.node);
    }
    for (const panel of this.panels) {
      panel.node.classList.toggle("is-away", view.full !== null && view.full !== panel.kind.name);
    }
  }

  /** @returns {import("./panelmenu.js").PanelHost} */
  #host() {
    return {
      scales: () => this.source.view(),
      setScales: (change) => this.source.set(change),
      full: () => this.source.view().full,
      setFull: (name) => this.source.set({ full: name }),
      pins: () => [],
      pin: () => {},
      move: () => {},
      run: () => "compare",
      axis: () => this.data.axis(),
      plots: () => this.plots,
      drop: (name) => this.source.set({ series: this.source.view().series.filter((each) => each !== name) }),
    };
  }

  /**
   * Redraw at the next frame, or later while runs load.
   */
  drawSoon() {
    if (this.#frame || this.#waiting || this.closed || !this.plots) return;
    if (this.#early()) {
      this.#waiting = setTimeout(() => {
        this.#waiting = undefined;
        this.drawSoon();
      }, AGAIN_MS);
    } else {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#drew = performance.now();
        this.#drawn = this.data.ready;
        this.draw();
      });
    }
  }

  /**
   * Return whether a drawing should wait for more runs: because each costs all lines, charts are drawn first
   * after a short wait, then when the number of runs has doubled, or after a while.
   */
  #early() {
    const { loading, ready } = this.data;
    const now = performance.now();
    this.#arriving ??= ready ? now : null;
    if (!loading) return false;
    return this.#drawn
      ? ready < 2 * this.#drawn && now < this.#drew + LOADING_MS
      : now < (this.#arriving ?? now) + FIRST_MS;
  }

  /** Draw the runs that arrived last without a pause: no others will follow. */
  complete() {
    if (this.closed || this.data.ready === this.#drawn) return;
    clearTimeout(this.#waiting);
    this.#waiting = undefined;
    this.drawSoon();
    this.plots?.hurry();
  }

  draw() {
    if (this.closed) return;
    this.#fold();
    for (const panel of this.panels) this.plots?.draw(panel.plot, (width) => this.#shown(panel, width));
    this.cross.refresh();
    this.tooltip.refresh(this.cross.pinned);
  }

  /** Show only the heads of series that no run reports, once that is known. */
  #fold() {
    const reported = this.data.reported();
    const { full } = this.source.view();
    const absent = (/** @type {Panel} */ { kind }) => reported !== null && !reported.has(kind.name);
    this.bottom = [...this.panels].reverse().find((panel) => !absent(panel)) ?? this.panels.at(-1) ?? null;
    for (const panel of this.panels) {
      panel.absent(absent(panel), panel === this.bottom || panel.kind.name === full, ABSENT);
      panel.taller(panel === this.bottom ? AXIS_PX : 0);
    }
  }

  /**
   * @param {Panel} panel
   * @param {number} width
   */
  #shown(panel, width) {
    const range = this.data.range();
    const picture = this.data.picture(
      panel.kind.name,
      drawingOf(panel.kind, this.source.view()),
      range,
      width,
      panel.log,
    );
    panel.drew(picture, this.#note(picture));
    panel.describe(() => this.#inWords(panel));
    this.#lift(panel);
    panel.plot.classList.toggle(
      "has-hidden",
      this.source.view().runs.every((run) => run.hidden),
    );
    say(panel.value, "");
    return {
      picture,
      bands: [],
      edges: [],
      xticks: panel === this.bottom || this.source.view().full !== null,
      ticks: this.data.ticks(range),
      color: inkOf(0),
    };
  }

  /** @param {import("../lib/charts/picture.js").Picture} picture */
  #note({ means, plan }) {
    const { difference, band } = this.source.view();
    const base = difference ? this.data.base() : null;
    const minus = base ? `minus ${this.data.nameOf(this.data.lineOf(base))}` : "";
    if (!means) return minus || undefined;
    const kind = band === "std" ? "mean ± standard deviation of runs" : "mean over min–max of runs";
    return dotted(plan.log ? "log" : "", kind, minus);
  }

  /** @param {Panel} panel */
  #inWords({ kind, log, picture }) {
    const { to } = this.source.view();
    return describeRuns(picture?.owned ?? [], picture?.marks ?? [], log, {
      nameOf: (id) => this.data.nameOf(id),
      label: (x) => this.#title(x),
      newest: new Map(this.#values(kind, picture, to).map(({ id, text }) => [id, text])),
    });
  }

  /**
   * Bring one run to the front.
   *
   * @param {string | null} id
   */
  light(id) {
    if (id === this.lit) return;
    this.lit = id;
    this.source.lit(id);
    for (const panel of this.panels) this.#lift(panel);
    this.cross.refresh();
  }

  /**
   * Highlight the run whose line is at the pointer.
   *
   * @param {import("./paneltooltip.js").Spot | null} spot
   */
  #pointed(spot) {
    if (this.closed) return;
    this.light(spot && nearest(spot.panel.picture?.owned ?? [], spot.at, this.#away(spot), REACH_PX));
  }

  /**
   * Return where the values of a panel are drawn, or null if it was never drawn.
   *
   * @param {Panel} panel
   */
  #placed(panel) {
    const plan = panel.picture?.plan;
    const [from, to] = this.data.range();
    const { left, right } = margins();
    if (!plan) return null;
    const bottom = PLOT_TOP + (panel === this.bottom || this.source.view().full !== null ? AXIS_PX : 0);
    const wide = Math.max(1, panel.plot.clientWidth - left - right);
    const high = Math.max(1, panel.plot.clientHeight - PLOT_TOP - bottom);
    const [low, top] = plan.range;
    return {
      left,
      wide,
      high,
      x: (/** @type {number} */ px) => from + (px / wide) * (to - from),
      across: (/** @type {number} */ x) => ((x - from) / (to - from)) * wide,
      down: (/** @type {number} */ y) => (1 - ((plan.log ? Math.log10(y) : y) - low) / (top - low)) * high,
    };
  }

  /**
   * Draw the highlighted line again over a veil, because redrawing a chart with hundreds of lines is slow.
   *
   * @param {Panel} panel
   */
  #lift(panel) {
    const lines = (panel.picture?.owned ?? []).filter((line) => line.id === this.lit);
    const placed = lines.length ? this.#placed(panel) : null;
    const known = panel.node.querySelector(".lift");
    if (!placed) return known?.remove();
    const { left, wide, high, across, down } = placed;
    const veil = svg(
      "svg",
      {
        class: "lift",
        "aria-hidden": "true",
        "--left": `${left}px`,
        "--top": `${panel.plot.offsetTop + PLOT_TOP}px`,
        width: wide,
        height: high,
      },
      ...lines.map((line) =>
        svg("path", {
          d: pathOf(line, across, down),
          "--ink": `var(${line.ink})`,
          "stroke-dasharray": line.dash.replaceAll("px", "") || null,
        }),
      ),
    );
    if (known) known.replaceWith(veil);
    else panel.node.append(veil);
  }

  /**
   * Return the distance in pixels between a value and a spot.
   *
   * @param {import("./paneltooltip.js").Spot} spot
   * @returns {(value: number) => number}
   */
  #away({ panel, y }) {
    const placed = this.#placed(panel);
    return (value) => (placed ? PLOT_TOP + placed.down(value) - y : NaN);
  }

  /**
   * Return the values of all visible runs, those nearest to the pointer first.
   *
   * @param {import("./paneltooltip.js").Spot} spot
   */
  #rows(spot) {
    const { panel, at } = spot;
    const dashes = new Map(panel.picture?.owned?.map(({ id, dash }) => [id, dash]));
    const rows = this.#values(panel.kind, panel.picture, at).map((row) => ({
      ...row,
      dash: dashes.get(row.id),
      lit: row.id === this.lit,
    }));
    const near = byDistance(panel.picture?.owned ?? [], at, this.#away(spot));
    const order = new Map(near.map(({ id }, i) => [id, i]));
    return rows.sort((a, b) => (order.get(a.id) ?? Infinity) - (order.get(b.id) ?? Infinity));
  }

  /**
   * Return the values of the visible runs or groups at `x`, or their newest.
   *
   * @param {import("./panel.js").PanelKind} kind
   * @param {import("../lib/charts/picture.js").Picture | null} picture
   * @param {number | null} x
   * @returns {(import("./tooltip.js").Row & { id: string, t?: number })[]}
   */
  #values(kind, picture, x) {
    if (!picture?.means) return valuesAt(this.data, kind, x);
    const { band, difference } = this.source.view();
    const how = { band, minus: difference, held: picture.steps };
    return picture.means.flatMap((mean) =>
      groupsAt([mean], x ?? mean.layer.x[mean.layer.x.length - 1] ?? NaN, how),
    );
  }

  /**
   * Below the values is when the nearest one was recorded, because each run has its own times.
   *
   * @param {import("./paneltooltip.js").Spot} spot
   */
  #content(spot) {
    const rows = this.#rows(spot);
    const note = rows.length && !spot.panel.picture?.means ? `${rows[0].name}: ${moment(rows[0].t)}` : "";
    return { title: this.#title(spot.at), rows, note };
  }

  /** @param {number} x */
  #title(x) {
    return this.data.label(x);
  }

  /** @param {number} x */
  #label(x) {
    return this.data.label(x) + (this.lit === null ? "" : ` · ${this.data.nameOf(this.lit)}`);
  }
}
