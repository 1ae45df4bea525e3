/** The charts of a run page, with their controls: vital signs, overview, gradient norms by layer, metrics. */

import { el } from "../../browser/dom.js";
import { go } from "../../browser/navigate.js";
import { loadPlotly } from "../../browser/plotly.js";
import { Controls } from "../../components/runs/controls.js";
import { WindowBar } from "../../components/runs/windowbar.js";
import { notLoaded } from "../../components/undo.js";
import { withChart, withoutChart } from "../../lib/charts/customchart.js";
import { ruleAddress } from "../../lib/views/ruleview.js";
import { xMetric } from "../../lib/views/xaxis.js";
import { Layers } from "../../panels/layers.js";
import { MetricPanels } from "../../panels/metricpanels.js";
import { OverviewStrip } from "../../panels/overviewstrip.js";
import { boxed, panelMenu } from "../../panels/panelmenu.js";
import { contentOf, PanelTooltip } from "../../panels/paneltooltip.js";
import { Plots } from "../../panels/plot.js";
import { Vitals } from "../../panels/vitals.js";

/** The overview strip shows the whole run, so it is drawn about once a second, not with every record. */
const OVERVIEW_MS = 900;
/** States of a run that has steps to come. */
const LIVE = new Set(["running", "stalled"]);
const BUCKETS = { least: 400, most: 2000 };
/** Of the whole run, which the server announces before the width is known (http/preloads.py). */
const OF_WHOLE = { narrow: 600, wide: 1500 };
const WIDE = "(width > 1600px)";

/**
 * @typedef {import("../../panels/vitals.js").Scene} Scene
 * @typedef {{ data: import("../../data/rundata.js").RunData, nav: import("./navigation.js").Navigation,
 *   chosen: () => Alert | null, pinned: (step: number | null) => void, failed: (error: Error) => void }}
 *   Source
 *   chosen: the alert being read; pinned: the reader pinned the cross line, or released it; failed: Plotly
 *   can't be loaded
 */

export class RunCharts {
  closed = false;
  #overviewDrawn = 0;
  /** Whether the series were last requested for a logarithmic axis. */
  #isLog = false;

  /**
   * @param {App} app
   * @param {string} id
   * @param {Source} source
   */
  constructor(app, id, source) {
    this.app = app;
    this.id = id;
    this.source = source;
    const { nav, data } = source;
    const set = (/** @type {Partial<import("./navigation.js").View>} */ change) => nav.set(change);
    this.plots = this.#plots();
    this.controls = new Controls({ view: () => nav.view, set });
    this.bar = new WindowBar({ follow: () => nav.follow(), reset: () => nav.reset() });
    this.overview = new OverviewStrip({ zoomed: (range) => nav.zoom(range), range: () => nav.range() });
    this.vitals = new Vitals(
      {
        scene: () => this.scene(),
        pinned: (step) => {
          this.tooltip.pinned(step);
          source.pinned(step);
        },
        pointed: (step) => this.metrics?.showAt(step),
        resized: () => this.draw(),
        chose: ({ severity, key, step }) => (severity ? nav.choose(key, step) : nav.go(step)),
      },
      (panel) => panelMenu(this.#host(), panel),
    );
    this.metrics = new MetricPanels(app, id, {
      scene: () => this.scene(),
      plots: () => this.plots,
      view: () => nav.view,
      set,
      hover: (step) => this.vitals.cross.hover(step),
      clicked: (step) => this.vitals.cross.toggle(step),
      menuOf: (panel) => panelMenu(this.#host(), panel),
      compose: () => this.#compose(null),
      first: (view) => {
        nav.view = view;
        this.restyle();
      },
    });
    this.layers = new Layers({
      ask: (window, series) => app.api.layers(id, window, series),
      go: (step) => nav.go(step),
    });
    this.node = this.#node();
    this.tooltip = new PanelTooltip(this.node, {
      panels: () => this.#panels(),
      range: () => nav.positions(),
      timeline: () => data.timeline(nav.view),
      content: ({ panel, at }) =>
        contentOf(panel, this.#layersOf(panel), at, this.scene(), this.metrics.linesAt(panel, at)),
      rounded: (at) => this.vitals.cross.rounded(at),
      release: () => this.vitals.cross.release(),
    });
    this.node.append(this.tooltip.node);
  }

  #plots() {
    const { nav, failed } = this.source;
    return new Plots(
      () =>
        loadPlotly(this.app.session.plotly).catch((error) => {
          failed(error);
          return null;
        }),
      (range) => nav.chart(range),
      (plot, range) => {
        const change = boxed(this.#panels(), plot, range, nav.view);
        if (change) nav.set(change);
      },
    );
  }

  #node() {
    return el(
      "div.charts",
      {},
      el(
        "div.bar.chartbar",
        {},
        el("h2", {}, "Vital signs"),
        this.controls.node,
        this.bar.text,
        this.bar.follow,
        this.bar.reset,
      ),
      this.controls.attempts,
      this.vitals.node,
      legend(),
      this.layers.node,
      this.metrics.head.node,
      this.metrics.failure,
      this.metrics.head.nothing,
      this.metrics.sections.grid,
    );
  }

  close() {
    this.closed = true;
    this.metrics.close();
    this.tooltip.close();
    this.plots.close();
    this.layers.close();
    document.documentElement.classList.remove("has-full");
  }

  /** Of the vital signs and the other metrics. */
  #panels() {
    return [...this.vitals.panels, ...this.metrics.panels];
  }

  /** @param {import("../../panels/panel.js").Panel} panel */
  #layersOf(panel) {
    const { name } = panel.kind;
    const isMetric = this.metrics.panels.includes(panel);
    return isMetric ? this.metrics.feed.set.get(name) : this.source.data.layers(name);
  }

  /**
   * Return the series of a chart, and the metric that is its x axis.
   *
   * @param {string} name
   */
  #recordsOf(name) {
    const metric = xMetric(this.source.nav.view.x);
    return [...new Set([...(metric === null ? [] : [metric]), ...this.metrics.seriesOf(name)])];
  }

  /** @param {string | null} name of the chart to edit; null: add one */
  #compose(name) {
    const { nav } = this.source;
    const save = (/** @type {string} */ made) => nav.set(withChart(nav.view, name, made));
    void import("../../components/runs/customform.js").then(
      ({ customForm }) => customForm({ name, known: this.metrics.all, save }),
      notLoaded,
    );
  }

  /** @returns {import("../../panels/panelmenu.js").PanelHost} */
  #host() {
    const { app, id } = this;
    const { nav, data } = this.source;
    return {
      scales: () => nav.view,
      setScales: (change) => nav.set(change),
      full: () => nav.view.full,
      setFull: (full) => nav.set({ full }),
      pins: () => nav.view.pins,
      pin: (name) => {
        const { pins } = nav.view;
        nav.set({ pins: pins.includes(name) ? pins.filter((each) => each !== name) : [...pins, name] });
      },
      move: (name, by) => this.metrics.arranging.move(name, by),
      moveInto: (name) =>
        void import("../../components/runs/sectionform.js").then(
          ({ askSection }) =>
            askSection(name, this.metrics.list, (key) => this.metrics.arranging.into(name, key)),
          notLoaded,
        ),
      sizes: () => nav.view.sizes,
      setSizes: (sizes) => nav.set({ sizes }),
      run: () => data.row?.name ?? id,
      plots: () => this.plots,
      axis: () => data.timeline(nav.view).title,
      csv: (name) => app.api.csv(id, this.#recordsOf(name), nav.records()),
      edit: (name) => this.#compose(name),
      remove: (name) => nav.set(withoutChart(nav.view, name)),
      table: (name) =>
        void import("../../components/runs/valuetable.js").then(
          ({ showValues }) => showValues(app.api, id, this.metrics.valuesOf(name), nav.records()),
          notLoaded,
        ),
      ...(app.session.scope === "read"
        ? {}
        : {
            embed: (title, chart, log) =>
              void import("../../components/runs/embeddialog.js").then(
                ({ embedChart }) => embedChart(app.api, id, { title, chart, log }),
                notLoaded,
              ),
            rule: (name) => go(ruleAddress(name, data.row?.project ?? "")),
          }),
    };
  }

  /**
   * What the panels draw, and how.
   *
   * @returns {Scene}
   */
  scene() {
    const { data, nav, chosen } = this.source;
    const { view } = nav;
    const timeline = data.timeline(view);
    return {
      range: nav.positions(),
      window: nav.range(),
      last: data.last ?? 0,
      alerts: this.app.alerts.of(this.id),
      events: data.events,
      chosen: chosen()?.id ?? null,
      reported: data.reported(),
      restarts: data.restarts(),
      timeline,
      scales: view,
      look: {
        smooth: { kind: view.smoothing, amount: view.smooth },
        older: view.older,
        ranks: view.ranks,
        timeline,
      },
      layers: (name) => data.layers(name),
    };
  }

  /**
   * Show the series that the run has by now.
   *
   * @param {RunDetail} run
   */
  offer(run) {
    this.#layers(true);
    this.vitals.arrange();
    this.metrics.offer(
      run.series.map((each) => each.name),
      run.writers,
    );
    this.showControls();
  }

  /** Load and draw the window of the view. */
  look() {
    const { data, nav } = this.source;
    this.#isLog = nav.window().logFrom !== null;
    data.look(nav.window(), this.#buckets());
    this.metrics.look(nav.window());
    if (data.run) this.#layers();
    this.draw();
    this.plots.hurry();
  }

  /** Draw the same steps, as the view says. */
  restyle() {
    const { data, nav } = this.source;
    data.also([xMetric(nav.view.x)].filter((name) => name !== null));
    this.showControls();
    this.vitals.fill(nav.view.full);
    document.documentElement.classList.toggle("has-full", nav.view.full !== null);
    this.metrics.arrange();
    const isLog = nav.window().logFrom !== null;
    if (isLog === this.#isLog) return this.draw();
    this.#isLog = isLog; // buckets that are as fine at the start as the axis is wide there, or equal ones
    this.look();
  }

  showControls() {
    const { data } = this.source;
    this.controls.show(data.run, data.ranks());
  }

  /** Redraw all charts after the window, theme or size changed. */
  draw() {
    this.drawVitals();
    if (!this.closed) this.metrics.draw();
  }

  /** Draw new records. The other metrics have a feed of their own. */
  drawVitals() {
    if (this.closed) return;
    const { data, nav } = this.source;
    const range = nav.range();
    this.bar.show({
      range,
      last: data.ready ? data.last : null,
      zoomed: nav.view.from !== null || Object.keys(nav.view.limits).length > 0,
      following: nav.view.follow,
      size: nav.followed(),
    });
    this.overview.window(range);
    this.drawOverview();
    if (data.ready) this.vitals.draw(this.plots);
    else this.vitals.cross.refresh();
    this.tooltip.refresh(this.vitals.cross.pinned);
  }

  /** Draw the overview strip, unless that was just done. */
  drawOverview() {
    const { data } = this.source;
    const early = Date.now() - this.#overviewDrawn <= OVERVIEW_MS;
    if (early || !data.ready || this.overview.from !== null) return;
    this.#overviewDrawn = Date.now();
    this.overview.draw({
      layers: data.layersOfRun("loss"),
      first: data.first ?? 0,
      last: data.last ?? 0,
      planned: LIVE.has(data.row?.state ?? "") ? (data.row?.planned_steps ?? null) : null,
      alerts: this.app.alerts.of(this.id),
      attempts: data.run?.attempts_list.map((each) => each.first_step) ?? [],
    });
  }

  /**
   * Load layer norms: of the chosen window, else around the alert being read.
   *
   * @param {boolean} again the run may have more by now
   */
  #layers(again = false) {
    void this.layers.look(this.source.chosen(), this.source.nav.window(), again);
  }

  bucketsOfWhole() {
    return matchMedia(WIDE).matches ? OF_WHOLE.wide : OF_WHOLE.narrow;
  }

  #buckets() {
    return Math.min(BUCKETS.most, Math.max(BUCKETS.least, Math.round(this.vitals.node.clientWidth) || 1000));
  }
}

/** The legend of shapes; no colors are needed to read it. */
function legend() {
  return el(
    "p.micro.legendline",
    {},
    ...[
      "⊗ NaN",
      "△ +Inf",
      "▽ −Inf",
      "○ zero, ◇ negative (log axis)",
      "▲▼ beyond the limits",
      "| skipped step",
      "tint: alert, from its onset",
      "dotted: fired",
    ].map((text) => el("span", {}, text)),
  );
}
