/**
 * One run: vital signs, alerts with their diagnosis, and all other metrics.
 *
 * Data: data/rundata.js loads the run and its vital signs and follows the live socket; the panels of
 * panels/metricpanels.js load their own series. State: the address, read and written by lib/views/runview.js.
 * View: scene() says what the charts draw: panels/vitals.js, panels/metricpanels.js and
 * panels/overviewstrip.js. Alerts are in components/alerts/aside.js.
 */

import { el, refill, say } from "../browser/dom.js";
import { loadPlotly } from "../browser/plotly.js";
import { go } from "../browser/navigate.js";
import { fitPaper } from "../browser/print.js";
import { alertActs } from "../components/alerts/alertacts.js";
import { Aside, severityChips } from "../components/alerts/aside.js";
import { copyButton } from "../components/code.js";
import { icon } from "../components/icons.js";
import { ResumeFrom } from "../components/incident/checkpoint.js";
import { button, notice } from "../components/notice.js";
import { CompareMenu } from "../components/runs/comparemenu.js";
import { customForm } from "../components/runs/customform.js";
import { Controls } from "../components/runs/controls.js";
import { Details } from "../components/runs/details.js";
import { embedChart } from "../components/runs/embeddialog.js";
import { EndingCard } from "../components/runs/ending.js";
import { Gauges } from "../components/runs/gauges.js";
import { RunHead } from "../components/runs/runhead.js";
import { showValues } from "../components/runs/valuetable.js";
import { WindowBar } from "../components/runs/windowbar.js";
import { ApiError } from "../data/http.js";
import { RunData } from "../data/rundata.js";
import { alertAt } from "../lib/alerts/attention.js";
import { withChart, withoutChart } from "../lib/charts/customchart.js";
import { padded } from "../lib/charts/metricaxis.js";
import { keyFactor, zoomCenter, zoomedAt } from "../lib/charts/zoom.js";
import { ruleAddress } from "../lib/views/ruleview.js";
import { followSize, readView, stepRange, writeView } from "../lib/views/runview.js";
import { xMetric } from "../lib/views/xaxis.js";
import { LayerHeat } from "../panels/layers.js";
import { MetricPanels } from "../panels/metricpanels.js";
import { OverviewStrip } from "../panels/overviewstrip.js";
import { boxed, panelMenu } from "../panels/panelmenu.js";
import { contentOf, PanelTooltip } from "../panels/paneltooltip.js";
import { Plots } from "../panels/plot.js";
import { Vitals } from "../panels/vitals.js";

/** @typedef {import("../lib/views/runview.js").View} View */

/** How often data that the socket doesn't carry (new series, writers, environment) is refreshed. */
const REFRESH_MS = 15_000;
/** The overview strip shows the whole run, so it need not follow every record. */
const OVERVIEW_MS = 1_000;
const BUCKETS = { least: 400, most: 2000 };

/** The page of a run: `data` holds the values, the panels draw them, `view` (in the address) says how. */
class RunPage {
  /** @type {[number, number] | null} */
  home = null;
  /** @type {Plots | null} */
  plots = null;
  closed = false;
  /** The alerts that the charts last drew. */
  alertKey = "";
  overviewDrawn = 0;

  /**
   * @param {App} app
   * @param {HTMLElement} main
   * @param {string} id
   */
  constructor(app, main, id) {
    this.app = app;
    this.main = main;
    this.id = id;
    this.view = readView(location.search);
    this.data = new RunData(app, id, {
      row: (row) => this.#showRow(row),
      details: (run) => this.#showDetails(run),
      series: (change) => this.#seriesChanged(change),
      failed: (error) => this.#failed(error),
    });
    const may = app.session.scope !== "read";
    this.gauges = new Gauges();
    this.ending = new EndingCard();
    this.head = new RunHead(id, {
      api: app.api,
      may,
      changed: (row) => this.data.edited(row),
      now: () => app.clock.now(),
    });
    this.compare = new CompareMenu(app.api, id);
    this.details = new Details(
      (step) => this.go(step),
      {
        may,
        save: async (notes, seen) =>
          this.data.edited(await app.api.change(id, { notes, seen: { notes: seen } })),
        again: async () => (await app.api.run(id)).notes ?? "",
        parse: (text) => app.api.markdown(text),
      },
      () => app.api.checkpoints(id),
      {
        ask: () => app.api.media(id),
        url: (hash) => app.api.mediaUrl(id, hash),
        content: (hash) => app.api.mediaContent(id, hash),
      },
      (asked) => app.api.console(id, asked),
    );
    this.controls = new Controls({ view: () => this.view, set: (change) => this.set(change) });
    this.bar = new WindowBar({ follow: () => this.follow(), reset: () => this.reset() });
    this.overview = new OverviewStrip({ zoomed: (range) => this.zoom(range), range: () => this.range() });
    this.vitals = this.#vitals();
    this.metrics = this.#metrics();
    this.aside = this.#aside();
    this.heat = new LayerHeat({
      ask: (window, series) => app.api.layers(id, window, series),
      go: (step) => this.go(step),
    });
    this.project = el("span", {}, "–");
    this.chips = el("span.row");
    this.failure = el("p.card.pad.failure", { role: "status", hidden: true });
    this.charts = this.#charts();
    this.tooltip = this.#tooltip();
    this.charts.append(this.tooltip.node);
  }

  #vitals() {
    return new Vitals(
      {
        scene: () => this.scene(),
        pinned: (step) => this.#pinned(step),
        pointed: (step) => this.metrics?.showAt(step),
        resized: () => this.draw(),
        chose: (flag) => this.#flag(flag),
      },
      (panel) => panelMenu(this.#panelHost(), panel),
    );
  }

  #metrics() {
    return new MetricPanels(this.app, this.id, {
      scene: () => this.scene(),
      plots: () => this.plots,
      view: () => this.view,
      set: (change) => this.set(change),
      hover: (step) => this.vitals.cross.hover(step),
      clicked: (step) => this.vitals.cross.toggle(step),
      menuOf: (panel) => panelMenu(this.#panelHost(), panel),
      compose: () => this.#compose(null),
      first: (change) => {
        this.view = { ...this.view, ...change };
        this.#lookChanged();
        this.draw();
      },
    });
  }

  /** @param {string | null} name of the chart to edit; null: add one */
  #compose(name) {
    customForm({
      name,
      known: this.metrics.all,
      save: (made) => this.set(withChart(this.view, name, made)),
    });
  }

  #aside() {
    const { app, id } = this;
    return new Aside({
      alerts: () => app.alerts.of(id),
      chosen: () => this.view.alert,
      mostSevere: () => this.data.row?.reason?.alert ?? null,
      choose: (alert) => this.#choose(alert),
      loaded: () => app.alerts.loaded,
      acts: (alert) => alertActs(app, alert),
      resume: new ResumeFrom(app),
      go: (step) => this.go(step),
      around: (alert) => this.around(alert),
      now: () => app.clock.now(),
    });
  }

  #panels() {
    return [...this.vitals.panels, ...this.metrics.panels.values()];
  }

  /** Of the vital signs and the other metrics. */
  #tooltip() {
    return new PanelTooltip(this.charts, {
      panels: () => this.#panels(),
      range: () => this.scene().range,
      timeline: () => this.data.timeline(this.view),
      content: ({ panel, at }) => {
        const { name } = panel.kind;
        const own = this.metrics.panels.get(name) === panel;
        return contentOf(
          panel,
          own ? this.metrics.feed.set.get(name) : this.data.layers(name),
          at,
          this.scene(),
          this.metrics.linesAt(panel, at),
        );
      },
      release: () => this.vitals.cross.release(),
    });
  }

  /** Everything with charts, beside the diagnosis. */
  #charts() {
    return el(
      "div.charts",
      {},
      el(
        "div.bar",
        {},
        el("h2", {}, "Vital signs"),
        this.bar.text,
        this.controls.node,
        el("span.grow"),
        this.bar.follow,
        this.bar.reset,
      ),
      this.controls.attempts,
      this.vitals.node,
      legend(),
      this.heat.node,
      this.metrics.head,
      this.metrics.failure,
      this.metrics.nothing,
      this.metrics.grid,
    );
  }

  #pageHead() {
    return el(
      "div.pagehead",
      {},
      el(
        "nav.muted.crumb",
        { "aria-label": "Where" },
        el("a", { href: "/" }, "Fleet"),
        " / ",
        this.project,
        " /",
      ),
      this.head.title,
      this.head.actions,
      this.chips,
      this.head.tags,
      el("span.grow"),
      this.compare.node,
      copyButton("Copy link", () => location.href),
      el(
        "a.btn",
        {
          href: this.app.api.report([this.id]),
          download: "",
          title: "Charts, alerts, notes and settings as one HTML file that needs no server",
        },
        icon("down"),
        "Report",
      ),
      el(
        "a.btn.wide-only",
        { href: this.app.api.csv(this.id), download: "" },
        icon("down"),
        "Records as CSV",
      ),
    );
  }

  open() {
    refill(
      this.main,
      this.#pageHead(),
      this.head.deleting,
      this.aside.callout,
      this.failure,
      this.ending.node,
      this.gauges.node,
      this.overview.node,
      el("div.runcols", {}, this.charts, this.aside.node),
      this.details.node,
    );
    this.app.title("Run");
    this.stopPaper = fitPaper(this.charts, this.vitals.node);
    this.stopAlerts = this.app.alerts.onChange(() => this.#alertsChanged());
    this.stopMarks = this.app.marks.onChange(() => this.aside.draw());
    void this.app.marks.load().catch(() => {});
    this.stopReconnect = this.app.live.onReconnect(() => {
      if (this.data.ready) void this.data.refresh();
      else this.data.reload();
    });
    this.ticker = setInterval(() => this.#tick(), 1000);
    this.refresher = setInterval(() => {
      if (!document.hidden) void this.data.refresh();
    }, REFRESH_MS);
    this.onkey = (/** @type {KeyboardEvent} */ event) => this.#key(event);
    this.ontheme = () => {
      this.draw();
      this.heat.draw();
    };
    document.addEventListener("keydown", this.onkey);
    addEventListener("themechange", this.ontheme);
    this.vitals.cross.pin(this.view.at);
    this.details.console.mark(this.view.at);
    this.#lookChanged();
    void this.#plotly();
    this.data.load(this.#buckets());
    void this.data.refresh().then(() => {
      if (!this.closed) this.#look();
    });
    void this.app.alerting
      .alerts({ run: this.id })
      .then(({ items }) => this.app.alerts.learn(items))
      .catch(() => {});
  }

  close() {
    this.closed = true;
    this.stopAlerts?.();
    this.stopMarks?.();
    this.stopReconnect?.();
    this.stopPaper?.();
    clearInterval(this.ticker);
    clearInterval(this.refresher);
    if (this.onkey) document.removeEventListener("keydown", this.onkey);
    if (this.ontheme) removeEventListener("themechange", this.ontheme);
    this.data.close();
    this.metrics.close();
    this.tooltip.close();
    this.plots?.close();
    this.heat.close();
    this.details.notes.close();
    document.documentElement.classList.remove("has-full");
  }

  /** Handle a changed address that still names this run. */
  moved() {
    this.view = this.metrics.layout.within(readView(location.search));
    this.vitals.cross.pin(this.view.at);
    this.details.console.mark(this.view.at);
    this.#lookChanged();
    this.#look();
    return true;
  }

  async #plotly() {
    try {
      const plotly = await loadPlotly(this.app.session.plotly);
      if (this.closed) return;
      this.plots = new Plots(
        plotly,
        (range) => (range ? this.#zoomed(range) : this.#whole()),
        (plot, range) => {
          const change = boxed(this.#panels(), plot, range, this.view);
          if (change) this.set(change);
        },
      );
      this.draw();
      this.metrics.draw();
    } catch (error) {
      this.#failed(/** @type {Error} */ (error));
    }
  }

  /** @param {RunRow} row */
  #showRow(row) {
    say(this.project, row.project);
    this.head.show(row);
    this.compare.show(row);
    void this.metrics.layout.of(row.project);
    this.app.title(row.name);
    this.gauges.show(row, this.app.clock.now());
    this.ending.show(row);
  }

  /** @param {RunDetail} run */
  #showDetails(run) {
    if (this.data.ready) this.failure.hidden = true;
    this.gauges.cost(run.series);
    this.#alertsChanged();
    this.details.show(run, this.data.events);
    this.#layers(true);
    this.metrics.offer(
      run.series.map((each) => each.name),
      run.writers,
    );
    this.#showControls();
  }

  /** @param {{ complete: boolean, grew: boolean }} change */
  #seriesChanged({ complete, grew }) {
    this.failure.hidden = true;
    if (complete) this.#showControls();
    if (grew) this.#drawVitals();
  }

  /** @param {Error} error */
  #failed(error) {
    if (error instanceof ApiError && error.status === 404) return this.#unknown();
    // Once the page has data, a separate bar reports that the server or its database is unavailable, so the
    // page does not move.
    if (this.data.ready && error instanceof ApiError && [0, 503].includes(error.status)) return;
    this.failure.hidden = false;
    refill(
      this.failure,
      icon("offline"),
      ` ${error.message} Data already shown stays; the page tries again when the server is back. `,
      button("Try now", () => this.data.reload()),
    );
  }

  #unknown() {
    this.app.title("No such run");
    refill(
      this.main,
      notice(
        "There is no such run",
        `No run has the id ${this.id}.`,
        "It may have been deleted, or it is on another server.",
        el("a.btn.primary", { href: "/" }, "All runs"),
      ),
    );
    this.close();
  }

  #alertsChanged() {
    const alerts = this.app.alerts.of(this.id);
    const key = JSON.stringify(
      alerts.map(({ id, state, severity, onset_step }) => [id, state, severity, onset_step]),
    );
    this.aside.draw();
    if (key === this.alertKey) return;
    this.alertKey = key;
    refill(this.chips, ...severityChips(alerts));
    this.draw();
  }

  #tick() {
    const { row } = this.data;
    if (row) {
      this.gauges.show(row, this.app.clock.now());
      this.head.show(row);
    }
    this.aside.draw();
    if (row?.state === "running" && !document.hidden) this.details.follow();
    if (this.data.zoomed || Date.now() - this.overviewDrawn > OVERVIEW_MS) this.#drawOverview();
  }

  /**
   * The visible steps.
   *
   * @returns {[number, number]}
   */
  range() {
    const { range, home } = stepRange(this.view, this.data.first, this.data.last, this.home);
    this.home = home;
    return range;
  }

  /**
   * What the panels draw, and how.
   *
   * @returns {import("../panels/vitals.js").Scene}
   */
  scene() {
    const { data, view } = this;
    const line = data.timeline(view);
    const window = this.range();
    return {
      range: positions(line, window, view.span),
      window,
      last: data.last ?? 0,
      alerts: this.app.alerts.of(this.id),
      events: data.events,
      chosen: this.aside?.current()?.id ?? null,
      reported: data.reported(),
      restarts: data.restarts(),
      timeline: line,
      scales: view,
      look: {
        smooth: { kind: view.smoothing, amount: view.smooth },
        older: view.older,
        ranks: view.ranks,
        timeline: line,
      },
      layers: (name) => data.layers(name),
    };
  }

  /** Redraw all charts after the window, theme or size changed. */
  draw() {
    this.#drawVitals();
    if (!this.closed) this.metrics.draw();
  }

  /** Draw new records. The other metrics have a feed of their own. */
  #drawVitals() {
    if (this.closed) return;
    const range = this.range();
    this.bar.show({
      range,
      last: this.data.ready ? this.data.last : null,
      zoomed: this.view.from !== null || Object.keys(this.view.limits).length > 0,
      following: this.view.follow,
      size: this.#followSize(),
    });
    this.overview.window(range);
    if (Date.now() - this.overviewDrawn > OVERVIEW_MS) this.#drawOverview();
    if (this.plots && this.data.ready) this.vitals.draw(this.plots);
    else this.vitals.cross.refresh();
    this.tooltip.refresh(this.vitals.cross.pinned);
  }

  #drawOverview() {
    const { data } = this;
    if (!data.ready || this.overview.from !== null) return;
    this.overviewDrawn = Date.now();
    this.overview.draw({
      layers: data.layersOfRun("loss"),
      first: data.first ?? 0,
      last: data.last ?? 0,
      planned: data.row?.planned_steps ?? null,
      alerts: this.app.alerts.of(this.id),
      attempts: data.run?.attempts_list.map((each) => each.first_step) ?? [],
    });
  }

  #followSize() {
    const [a, b] = this.range();
    return followSize(this.view.from === null ? (b - a) / 8 : b - a);
  }

  /**
   * A window chosen on a chart, in units of its x axis.
   *
   * @param {[number, number]} range
   */
  #zoomed(range) {
    const line = this.data.timeline(this.view);
    const [a, b] = line.extent(this.data.first ?? 0, this.data.last ?? 0);
    const natural = /** @type {[number, number]} */ (line.log ? range.map((x) => 10 ** x) : range);
    if (range[0] < a && range[1] > b) this.#whole();
    else this.zoom(line.steps(range), line.kind === "metric" ? natural : null);
  }

  /**
   * Redraw the same steps differently.
   *
   * @param {Partial<View>} change
   */
  set(change) {
    this.view = { ...this.view, ...change };
    this.#address();
    this.#lookChanged();
    this.draw();
  }

  #lookChanged() {
    this.data.also([xMetric(this.view.x)].filter((name) => name !== null));
    this.#showControls();
    this.vitals.fill(this.view.full);
    document.documentElement.classList.toggle("has-full", this.view.full !== null);
    this.metrics.arrange();
  }

  #showControls() {
    this.controls.show(this.data.run, this.data.ranks());
  }

  /** @returns {import("../panels/panelmenu.js").PanelHost} */
  #panelHost() {
    const window = () =>
      this.view.from === null && this.view.follow === null
        ? { from: null, to: null }
        : { from: Math.max(0, Math.floor(this.range()[0])), to: Math.ceil(this.range()[1]) };
    return {
      scales: () => this.view,
      setScales: (change) => this.set(change),
      full: () => this.view.full,
      setFull: (name) => this.set({ full: name }),
      pins: () => this.view.pins,
      pin: (name) =>
        this.set({
          pins: this.view.pins.includes(name)
            ? this.view.pins.filter((each) => each !== name)
            : [...this.view.pins, name],
        }),
      move: (name, by) => this.metrics.arranging.move(name, by),
      sizes: () => this.view.sizes,
      setSizes: (sizes) => this.set({ sizes }),
      run: () => this.data.row?.name ?? this.id,
      plots: () => this.plots,
      csv: (name) => this.app.api.csv(this.id, this.metrics.seriesOf(name), window()),
      edit: (name) => this.#compose(name),
      remove: (name) => this.set(withoutChart(this.view, name)),
      table: (name) => void showValues(this.app.api, this.id, this.metrics.valuesOf(name), window()),
      ...(this.app.session.scope === "read"
        ? {}
        : {
            embed: (name, title) => embedChart(this.app.api, this.id, name, title),
            rule: (name) => go(ruleAddress(name, this.data.row?.project ?? "")),
          }),
    };
  }

  /**
   * @param {[number, number]} range steps
   * @param {View["span"]} [span] the visible part of a metric as x axis
   */
  zoom([from, to], span = null) {
    const first = Math.max(from, (this.data.first ?? 0) - 1);
    const end = Number.isFinite(to) ? to : (this.data.last ?? 0) + 1;
    this.view = { ...this.view, from: first, to: Math.max(end, first + 2), follow: null, span };
    this.#changed();
  }

  /** Show all steps. */
  #whole() {
    this.view = { ...this.view, from: null, to: null, follow: null, span: null };
    this.#changed();
  }

  /** Show all steps and all values. */
  reset() {
    this.view = { ...this.view, limits: {} };
    this.#whole();
  }

  /** Follow the newest steps, as many as are visible now; again: the whole run. */
  follow() {
    const follow = this.view.follow === null ? this.#followSize() : null;
    this.view = { ...this.view, from: null, to: null, follow, span: null };
    this.#changed();
  }

  /**
   * Move the cross line to a step, and the window if the step is not visible.
   *
   * @param {number} step
   */
  go(step) {
    const [a, b] = this.range();
    if (step < a || step > b) this.view = { ...this.view, from: null, to: null, follow: null, span: null };
    this.view = { ...this.view, at: step };
    this.vitals.cross.pin(step);
    this.details.console.mark(step);
    this.#changed();
    this.vitals.node.scrollIntoView({ block: "nearest" });
  }

  /**
   * Zoom to where an alert began and fired, with as much before it.
   *
   * @param {Alert} alert
   */
  around(alert) {
    const onset = alert.onset_step ?? 0;
    const fired = Math.max(alert.fired_step ?? onset, onset);
    const room = Math.max(40, (fired - onset) * 2);
    this.view = { ...this.view, alert: alert.id, at: onset };
    this.zoom([Math.max(this.data.first ?? 0, onset - room), Math.max(fired, onset) + room]);
    this.go(onset);
  }

  /** @param {Alert} alert */
  #choose(alert) {
    this.view = { ...this.view, alert: alert.id };
    if (alert.onset_step !== null) this.go(alert.onset_step);
    else this.#changed();
    this.aside.draw();
  }

  /** @param {import("../lib/charts/flags.js").Flag} flag */
  #flag(flag) {
    if (flag.severity) this.view = { ...this.view, alert: flag.key };
    this.go(flag.step);
    this.aside.draw();
  }

  /** @param {number | null} step */
  #pinned(step) {
    const before = this.aside.current()?.id ?? null;
    const under =
      step === null ? null : alertAt(this.app.alerts.of(this.id), step, before, this.data.last ?? 0);
    this.view = { ...this.view, at: step, ...(under ? { alert: under.id } : {}) };
    this.#address();
    this.tooltip.pinned(step);
    this.details.console.mark(step);
    if (!under || under.id === before) return;
    this.aside.draw();
    this.draw();
  }

  #changed() {
    this.#address();
    this.#look();
  }

  #address() {
    history.replaceState(null, "", location.pathname + writeView(this.view));
  }

  /** Load and draw the window of the view. */
  #look() {
    const window = this.#window(this.data.last ?? this.data.row?.last_step ?? 0);
    this.data.look(window, this.#buckets());
    this.metrics.look(window);
    if (this.data.run) this.#layers();
    this.draw();
  }

  /**
   * The window of the view in steps; null means no limit.
   *
   * @param {number} last
   * @returns {StepWindow}
   */
  #window(last) {
    const { from, to, follow } = this.view;
    return follow === null ? { from, to } : { from: Math.max(0, last - follow), to: null };
  }

  /**
   * Load layer norms: of the chosen window, else around the alert being read.
   *
   * @param {boolean} again the run may have more by now
   */
  #layers(again = false) {
    const alert = this.aside?.current() ?? null;
    const window = this.#window(this.data.last ?? 0);
    void this.heat.look(LayerHeat.window(alert, window), alert?.onset_step ?? null, again);
  }

  #buckets() {
    return Math.min(BUCKETS.most, Math.max(BUCKETS.least, Math.round(this.vitals.node.clientWidth) || 1000));
  }

  /** @param {number} factor by which the window grows, around the cross line */
  #zoomBy(factor) {
    const { range, timeline } = this.scene();
    const { step } = this.vitals.cross;
    const cross = step === null ? null : timeline.toX(step);
    this.#zoomed(zoomedAt(range, zoomCenter(range, cross), factor));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      /** @type {Element} */ (event.target).closest?.("input, textarea, select")
    ) {
      return;
    }
    if (event.key === "r" || event.key === "R") this.reset();
    const factor = keyFactor(event.key);
    if (factor !== null) this.#zoomBy(factor);
    if (event.key === "f" || event.key === "F") this.follow();
    if (event.key !== "Escape") return;
    if (this.view.full !== null) this.set({ full: null });
    else this.vitals.cross.release();
  }
}

/**
 * Return the visible range of the x axis: of a metric and of a log axis with some space at both ends.
 *
 * @param {import("../lib/charts/timeaxis.js").Timeline} line
 * @param {[number, number]} steps
 * @param {View["span"]} span
 * @returns {[number, number]}
 */
function positions(line, [from, to], span) {
  if (span && line.kind === "metric" && (span[0] > 0 || !line.log)) {
    const [a, b] = line.log ? span.map(Math.log10) : span;
    return [a, b];
  }
  const range = line.extent(from, to);
  return line.kind === "metric" || line.log ? padded(range) : range;
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

/** @type {OpenPage} */
export function runPage(app, main, id) {
  const page = new RunPage(app, main, id);
  page.open();
  return { close: () => page.close(), moved: () => page.moved() };
}
