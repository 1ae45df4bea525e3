/**
 * Comparison of runs: values or differences to a baseline, by step, time or tokens; settings that differ;
 * alerts.
 */

import { el, refill, say, svg } from "../browser/dom.js";
import { fitPaper } from "../browser/print.js";
import { icon } from "../components/icons.js";
import { menu } from "../components/menu.js";
import { button, inset } from "../components/notice.js";
import { RunsTable, settingsTable } from "../components/runs/comparetables.js";
import { Comparison } from "../data/comparison.js";
import { nearest, pathOf } from "../lib/charts/compare.js";
import { STEPS } from "../lib/charts/timeaxis.js";
import { counted, dotted } from "../lib/format.js";
import { outside } from "../lib/root.js";
import { addressOf, askedIn } from "../lib/route.js";
import {
  inkOf,
  MOST_REPORTED,
  MOST_RUNS,
  readCompare,
  withRun,
  writeCompare,
} from "../lib/views/compareview.js";
import { CrossLine } from "../panels/crossline.js";
import { isMetric, metric } from "../panels/metric.js";
import { Panel } from "../panels/panel.js";
import { panelMenu } from "../panels/panelmenu.js";
import { loadPlotly, margins, Plots } from "../panels/plot.js";
import { KINDS } from "../panels/vitals.js";

/** @typedef {import("../lib/views/compareview.js").CompareView} CompareView */

const ALIGN = /** @type {const} */ ([
  ["step", "Step"],
  ["relative", "Relative time"],
  ["tokens", "Tokens"],
]);
const AXIS_PX = 18;
/** How often data that the socket doesn't carry is refreshed. */
const REFRESH_MS = 20_000;
/** Tables are rewritten at most this often while many responses arrive. */
const TABLES_MS = 150;
/** Charts are redrawn at least this often while runs still load. */
const LOADING_MS = 6_000;
/** How often that is checked. */
const AGAIN_MS = 250;
/** After writing, pause for this many times as long as it took. */
const TABLES_REST = 4;
/** Space above a plot's drawing, and below it if it has no ticks (plot.js). */
const PLOT_TOP = 6;
/** The line nearest to the pointer is highlighted if it is within this many pixels. */
const REACH_PX = 12;

class ComparePage {
  /** @type {Plots | null} */
  plots = null;
  /** @type {Panel[]} */
  panels = [];
  closed = false;
  /** Width of the charts in pixels, cached because reading it for every record would force a layout. */
  width = 0;
  panelKey = "";
  /** @type {string | null} the highlighted run */
  lit = null;
  /** How many milliseconds the last rewrite of the tables took. */
  tablesTook = 0;
  #frame = 0;
  #drew = -Infinity;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #waiting;
  /** Runs loaded by then. */
  #drawn = 0;
  #pointing = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #tabling;

  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.view = readCompare(askedIn(location));
    this.data = new Comparison(app, {
      view: () => this.view,
      changed: () => this.#drawSoon(),
      known: () => this.#tablesSoon(),
      failed: (error) => this.#failed(error),
    });
    this.count = el("span.muted");
    this.report = el(
      "a.btn",
      {
        download: "",
        title: "These runs and their alerts as one HTML file that needs no server",
      },
      icon("down"),
      "Report",
    );
    this.picker = /** @type {HTMLInputElement} */ (
      el("input", {
        list: "all-runs",
        placeholder: "add a run by name",
        "aria-label": "Add a run",
        onchange: () => this.#picked(),
      })
    );
    this.options = el("datalist", { id: "all-runs" });
    this.xs = ALIGN.map(([kind, text]) =>
      el(
        "button",
        {
          type: "button",
          "data-x": kind,
          onclick: () => this.set({ x: kind, from: null, to: null, at: null }),
        },
        text,
      ),
    );
    this.slider = /** @type {HTMLInputElement} */ (
      el("input", {
        type: "range",
        min: 0,
        max: 0.99,
        step: 0.01,
        value: 0,
        "aria-label": "Smoothing",
        oninput: () => this.set({ smooth: Number(this.slider.value) }),
      })
    );
    this.diff = el(
      "button.btn",
      {
        type: "button",
        "aria-pressed": "false",
        onclick: () => this.set({ difference: !this.view.difference }),
      },
      "Difference to baseline",
    );
    this.reset = el(
      "button.btn",
      { type: "button", disabled: true, onclick: () => this.set({ from: null, to: null }) },
      "Reset ",
      el("kbd.wide-only", {}, "R"),
    );
    this.seriesMenu = menu("Series", () => this.#seriesItems(), { text: "Series", shape: "fleet" });
    this.failure = el("p.card.pad.failure", { role: "status", hidden: true });
    this.runs = new RunsTable({
      show: (id) =>
        this.set({
          runs: this.view.runs.map((run) => (run.id === id ? { ...run, hidden: !run.hidden } : run)),
        }),
      all: (shown) => this.set({ runs: this.view.runs.map((run) => ({ ...run, hidden: !shown })) }),
      point: (id) => this.#light(id),
      pin: (id) => this.set({ base: this.view.base === id ? null : id }),
      drop: (id) =>
        this.set({
          runs: this.view.runs.filter((run) => run.id !== id),
          base: this.view.base === id ? null : this.view.base,
        }),
    });
    this.settings = el("section.card.pad.then", { "aria-label": "Settings" });
    this.nothing = el("div");
    const label = el("span");
    const line = el("div.cross", { hidden: true, "aria-hidden": "true" }, label);
    this.line = line;
    this.board = el("section.card.vitals.compare", {
      tabindex: "0",
      "aria-label": "Charts of all runs on one axis. Arrow keys move the cross line, Escape releases it.",
    });
    this.cross = new CrossLine(this.board, line, label, {
      width: () => this.width,
      range: () => this.data.range(),
      timeline: () => ({ ...STEPS, label: (x) => this.#label(x) }),
      margins,
      pointed: (x) => this.#showAt(x),
      pinned: (x) => this.set({ at: x }),
    });
  }

  open() {
    this.app.title("Compare");
    this.stopPaper = fitPaper(this.board);
    refill(
      this.main,
      el(
        "div.pagehead",
        {},
        el("h1", {}, "Compare"),
        this.count,
        el("span.grow"),
        this.report,
        el("label.field.query", {}, this.picker),
        this.options,
      ),
      this.failure,
      this.nothing,
      el(
        "div.comparison",
        {},
        el("h2.vh", {}, "Runs"),
        this.runs.node,
        el(
          "div.bar.then",
          {},
          el("div.seg", { role: "group", "aria-label": "Align by" }, ...this.xs),
          el("label.row.tight", {}, el("span.soft", {}, "Smoothing"), this.slider),
          this.diff,
          this.seriesMenu,
          el("span.grow"),
          this.reset,
        ),
        el("h2.vh", {}, "Charts"),
        this.board,
        this.settings,
      ),
    );
    this.key = (/** @type {KeyboardEvent} */ event) => this.#key(event);
    this.ontheme = () => this.draw();
    document.addEventListener("keydown", this.key);
    addEventListener("themechange", this.ontheme);
    this.stopAlerts = this.app.alerts.onChange(() => this.#tablesSoon());
    this.board.addEventListener("pointermove", (event) => this.#pointedSoon(event));
    this.board.addEventListener("pointerleave", () => this.#light(null));
    this.ticker = setInterval(() => {
      if (!document.hidden) void this.data.refresh();
    }, REFRESH_MS);
    this.sizes = new ResizeObserver(([entry]) => {
      this.width = entry.contentRect.width;
      this.cross.refresh();
    });
    this.sizes.observe(this.board);
    this.cross.pin(this.view.at);
    this.#look();
    void this.#plotly();
    void this.#offer();
  }

  close() {
    this.closed = true;
    if (this.key) document.removeEventListener("keydown", this.key);
    if (this.ontheme) removeEventListener("themechange", this.ontheme);
    this.stopAlerts?.();
    this.stopPaper?.();
    this.sizes?.disconnect();
    clearInterval(this.ticker);
    clearTimeout(this.#tabling);
    clearTimeout(this.#waiting);
    cancelAnimationFrame(this.#frame);
    cancelAnimationFrame(this.#pointing);
    this.data.close();
    this.plots?.close();
  }

  moved() {
    this.view = readCompare(askedIn(location));
    this.cross.pin(this.view.at);
    this.#look();
    return true;
  }

  /** @param {Partial<CompareView>} change */
  set(change) {
    this.view = { ...this.view, ...change };
    history.replaceState(null, "", addressOf(location.pathname, writeCompare(this.view)));
    this.#look();
  }

  async #plotly() {
    try {
      const plotly = await loadPlotly(this.app.session.plotly);
      if (this.closed) return;
      this.plots = new Plots(plotly, (range) =>
        this.set(range ? { from: range[0], to: range[1] } : { from: null, to: null }),
      );
      this.draw();
    } catch (error) {
      this.#failed(/** @type {Error} */ (error));
    }
  }

  /** Names of all runs, for the box to add one. */
  async #offer() {
    try {
      const { items } = await this.app.api.allRuns();
      this.offered = new Map(items.map((row) => [`${row.name} · ${row.project} · ${row.id}`, row.id]));
      refill(this.options, ...[...this.offered.keys()].map((value) => el("option", { value })));
    } catch {
      /* the box accepts ids too */
    }
  }

  #picked() {
    const text = this.picker.value.trim();
    const id =
      this.offered?.get(text) ??
      [...(this.offered ?? [])].find(([label, each]) => each === text || label.startsWith(`${text} · `))?.[1];
    if (id) {
      this.picker.value = "";
      this.set({ runs: withRun(this.view.runs, id) });
    }
    this.picker.setCustomValidity(id || !text ? "" : "No run has this name.");
    this.picker.reportValidity();
  }

  /** Apply the view. */
  #look() {
    const { view } = this;
    const none = !view.runs.length;
    if (this.lit !== null && !view.runs.some((run) => run.id === this.lit)) this.lit = null;
    const maximum = view.runs.length === MOST_RUNS ? ", the maximum" : "";
    const limit = view.runs.length > MOST_REPORTED ? `reports hold ${MOST_REPORTED}` : "";
    say(this.count, none ? "" : dotted(`${counted(view.runs.length, "run")}${maximum}`, limit));
    this.report.hidden = view.runs.length < 2 || view.runs.length > MOST_REPORTED;
    this.report.setAttribute(
      "href",
      this.report.hidden
        ? ""
        : outside(
            this.app.api.report(
              view.runs.map((run) => run.id),
              view.series,
            ),
          ),
    );
    for (const each of this.xs) each.setAttribute("aria-pressed", String(each.dataset.x === view.x));
    if (Number(this.slider.value) !== view.smooth) this.slider.value = String(view.smooth);
    this.diff.setAttribute("aria-pressed", String(view.difference));
    this.diff.toggleAttribute("disabled", view.runs.length < 2);
    this.reset.toggleAttribute("disabled", view.from === null);
    for (const node of this.main.querySelectorAll(".comparison")) node.toggleAttribute("hidden", none);
    refill(
      this.nothing,
      none
        ? inset(
            "No runs selected",
            "Compare two or more runs to see differences in values, settings and alerts.",
            "Select runs in the fleet and press Compare, or type a name above.",
            el("a.btn.primary", { href: "/" }, "Go to the fleet"),
          )
        : null,
    );
    this.#panels();
    this.data.look();
    this.#tables();
    this.draw();
  }

  /** Create a panel for each vital sign and each chosen series. */
  #panels() {
    const kinds = [
      ...KINDS,
      ...this.view.series.filter(isMetric).map((name) => ({ ...metric(name), height: 150 })),
    ];
    const key = kinds.map((kind) => kind.name).join("\n");
    this.board.classList.toggle("is-full", this.view.full !== null);
    document.documentElement.classList.toggle("has-full", this.view.full !== null);
    if (key !== this.panelKey) {
      this.panelKey = key;
      for (const panel of this.panels) this.plots?.drop(panel.plot);
      this.panels = kinds.map((kind, i) => {
        /** @type {Panel} */
        const panel = new Panel(kind, {
          tall: i === kinds.length - 1 ? AXIS_PX : 0,
          menu: panelMenu(this.#host(), () => panel),
        });
        return panel;
      });
      refill(this.board, ...this.panels.map((panel) => panel.node), this.line);
    }
    for (const panel of this.panels) {
      panel.node.classList.toggle("is-away", this.view.full !== null && this.view.full !== panel.kind.name);
    }
  }

  /** @returns {import("../panels/panelmenu.js").PanelHost} */
  #host() {
    const without = (/** @type {string} */ name) =>
      Object.fromEntries(Object.entries(this.view.axes).filter(([key]) => key !== name));
    return {
      axis: (name) => this.view.axes[name] ?? null,
      setAxis: (name, kind) => this.set({ axes: kind ? { ...without(name), [name]: kind } : without(name) }),
      full: () => this.view.full,
      setFull: (name) => this.set({ full: name }),
      pins: () => [],
      pin: () => {},
      move: () => {},
      run: () => "compare",
      plots: () => this.plots,
      drop: (name) => this.set({ series: this.view.series.filter((each) => each !== name) }),
    };
  }

  #seriesItems() {
    const names = this.data.names().filter(isMetric);
    const { series } = this.view;
    return [
      { head: names.length ? "Add metric" : "No other metrics" },
      ...names.slice(0, 300).map((name) => ({
        text: name,
        on: series.includes(name),
        act: () =>
          this.set({
            series: series.includes(name) ? series.filter((each) => each !== name) : [...series, name],
          }),
      })),
    ];
  }

  /** Batch the responses, because hundreds may arrive. */
  #tablesSoon() {
    this.#tabling ??= setTimeout(
      () => {
        this.#tabling = undefined;
        if (!this.closed) this.#tables();
      },
      Math.max(TABLES_MS, TABLES_REST * this.tablesTook),
    );
  }

  /**
   * Redraw at the next frame. While many runs load, redraw only when their number has doubled, or after a
   * while, because each redraw costs all lines.
   */
  #drawSoon() {
    if (this.#frame || this.#waiting || this.closed) return;
    const early =
      this.data.loading && this.data.ready < 2 * this.#drawn && performance.now() < this.#drew + LOADING_MS;
    if (early) {
      this.#waiting = setTimeout(() => {
        this.#waiting = undefined;
        this.#drawSoon();
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

  #tables() {
    const began = performance.now();
    this.runs.show(this.#rows(this.cross.step), this.data.base());
    settingsTable(
      this.settings,
      this.data.details(),
      this.view.same,
      () => this.set({ same: !this.view.same }),
      this.data.base(),
    );
    this.tablesTook = performance.now() - began;
  }

  /** @param {number | null} x */
  #showAt(x) {
    this.runs.values(this.#rows(x));
  }

  /** @param {number | null} x */
  #rows(x) {
    return this.data.rows(
      this.panels.map((panel) => panel.kind),
      x,
    );
  }

  /**
   * Bring one run to the front, in the charts and in the table.
   *
   * @param {string | null} id
   */
  #light(id) {
    if (id === this.lit) return;
    this.lit = id;
    this.runs.light(id);
    for (const panel of this.panels) this.#lift(panel);
    this.cross.refresh();
  }

  /** @param {PointerEvent} event */
  #pointedSoon(event) {
    cancelAnimationFrame(this.#pointing);
    this.#pointing = requestAnimationFrame(() => {
      if (!this.closed && !event.buttons) this.#light(this.#runUnder(event));
    });
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
    const bottom =
      PLOT_TOP + (panel === this.panels[this.panels.length - 1] || this.view.full !== null ? AXIS_PX : 0);
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
   * Return the run whose line is under the pointer.
   *
   * @param {PointerEvent} event
   * @returns {string | null}
   */
  #runUnder(event) {
    const panel = this.panels.find((each) => each.plot.contains(/** @type {Node} */ (event.target)));
    const placed = panel && this.#placed(panel);
    if (!panel || !placed) return null;
    const box = panel.plot.getBoundingClientRect();
    return nearest(
      panel.picture?.owned ?? [],
      placed.x(event.clientX - box.left - placed.left),
      (value) => box.top + PLOT_TOP + placed.down(value) - event.clientY,
      REACH_PX,
    );
  }

  /** @param {number} x */
  #label(x) {
    return this.data.label(x) + (this.lit === null ? "" : ` · ${this.data.nameOf(this.lit)}`);
  }

  draw() {
    if (this.closed) return;
    this.panels.forEach((panel, i) =>
      this.plots?.draw(panel.plot, (width) => this.#shown(panel, width, i === this.panels.length - 1)),
    );
    this.cross.refresh();
  }

  /**
   * @param {Panel} panel
   * @param {number} width
   * @param {boolean} bottom
   */
  #shown(panel, width, bottom) {
    const axis = this.view.axes[panel.kind.name];
    const range = this.data.range();
    const picture = this.data.picture(
      panel.kind.name,
      axis ? { ...panel.kind.drawing, axis } : panel.kind.drawing,
      range,
      width,
      panel.log,
    );
    panel.drew(picture);
    this.#lift(panel);
    panel.plot.classList.toggle(
      "has-hidden",
      this.view.runs.every((run) => run.hidden),
    );
    say(panel.value, "");
    say(
      panel.note,
      this.view.difference && this.data.base()
        ? `minus ${this.data.nameOf(String(this.data.base()))}`
        : panel.kind.note(picture.plan),
    );
    return {
      picture,
      bands: [],
      edges: [],
      xticks: bottom || this.view.full !== null,
      ticks: this.data.ticks(range),
      color: inkOf(0),
    };
  }

  /** @param {Error} error */
  #failed(error) {
    this.failure.hidden = false;
    refill(
      this.failure,
      `${error.message} Data already shown stays. `,
      button("Try now", () => {
        this.failure.hidden = true;
        void this.data.refresh();
        this.data.reload();
      }),
    );
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      /** @type {Element} */ (event.target).closest?.("input, textarea, select, dialog")
    ) {
      return;
    }
    if (event.key === "r") this.set({ from: null, to: null });
    if (event.key === "d" && this.view.runs.length > 1) this.set({ difference: !this.view.difference });
    if (event.key === "Escape" && this.view.full !== null) this.set({ full: null });
  }
}

/** @type {OpenPage} */
export function comparePage(app, main) {
  const page = new ComparePage(app, main);
  page.open();
  return { close: () => page.close(), moved: () => page.moved() };
}
