/**
 * Comparison of runs: values or differences to a baseline, by step, time or tokens; settings that differ;
 * alerts.
 *
 * Data: data/comparison.js loads the series and follows the live socket. State: the address, read and written
 * by lib/views/compareview.js. View: charts in panels/compareboard.js, tables in
 * components/runs/comparetables.js; charts of runs in panels/runboard.js.
 */

import { el, refill, say } from "../browser/dom.js";
import { fitPaper } from "../browser/print.js";
import { isShortcut } from "../browser/shortcuts.js";
import { copyButton } from "../components/code.js";
import { icon } from "../components/icons.js";
import { button, inset } from "../components/notice.js";
import { CompareBar } from "../components/runs/comparebar.js";
import { RunsTable, settingsTable } from "../components/runs/comparetables.js";
import { GroupTable } from "../components/runs/grouptable.js";
import { LayoutMenu } from "../components/runs/layoutmenu.js";
import { MediaCompare } from "../components/runs/mediacompare.js";
import { RunPicker } from "../components/runs/runpicker.js";
import { Comparison } from "../data/comparison.js";
import { groupRowsOf, outcomesOf, rowsOf } from "../data/comparisonrows.js";
import { RunNumbers } from "../data/runnumbers.js";
import { SweepCard } from "../components/runs/sweepcard.js";
import { quantities } from "../lib/charts/quantity.js";
import { keyFactor, zoomCenter, zoomedAt } from "../lib/charts/zoom.js";
import { counted, dotted } from "../lib/format.js";
import { outside } from "../lib/root.js";
import { addressOf, askedIn } from "../lib/route.js";
import { MOST_REPORTED, MOST_RUNS, readCompare, withRun, writeCompare } from "../lib/views/compareview.js";
import { COMPARE_LAYOUT } from "../lib/views/comparelayout.js";
import { CompareBoard } from "../panels/compareboard.js";
import { isMetric } from "../panels/metric.js";
import { RunBoard } from "../panels/runboard.js";

/** @typedef {import("../lib/views/compareview.js").CompareView} CompareView */

/** Whether a series can be what settings are judged by. */
const isOutcome = (/** @type {string} */ name) => isMetric(name) || name === "loss" || name === "grad_norm";

/** How often data that the socket doesn't carry is refreshed. */
const REFRESH_MS = 20_000;
/** Tables are rewritten at most this often while many responses arrive. */
const TABLES_MS = 150;
/** As many rows fill the table of runs until something has arrived. */
const FIRST_ROWS = 40;
/** After writing, pause for this many times as long as it took. */
const TABLES_REST = 4;

class ComparePage {
  closed = false;
  /** How many milliseconds the last rewrite of the tables took. */
  tablesTook = 0;
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
      changed: () => {
        this.board.drawSoon();
        this.#tablesSoon();
      },
      known: () => this.#tablesSoon(),
      complete: () => {
        this.board.complete();
        this.#tablesSoon();
      },
      failed: (error) => this.#failed(error),
    });
    this.board = new CompareBoard({
      data: this.data,
      view: () => this.view,
      set: (change) => this.set(change),
      pointed: (x) => this.runs.values(this.#rows(x)),
      lit: (id) => this.#lit(id),
    });
    this.layout = new LayoutMenu(app.api, COMPARE_LAYOUT, {
      may: app.session.scope !== "read",
      view: () => this.view,
      set: (change) => this.set(change),
      first: (view) => {
        this.view = view;
        this.#pin();
        this.#look();
      },
    });
    this.bar = new CompareBar(this.layout.node, {
      view: () => this.view,
      set: (change) => this.set(change),
      metrics: () => this.data.names().filter(isMetric),
      names: () => this.data.names(),
      keys: () => this.data.groupKeys(),
    });
    this.groups = new GroupTable((id) => this.board.light(id));
    this.picker = new RunPicker(
      () => app.api.allRuns(),
      (id) => this.set({ runs: withRun(this.view.runs, id) }),
    );
    this.runs = this.#runsTable();
    this.settings = el("section.card.pad.then", { "aria-label": "Settings" });
    this.sweep = new SweepCard((change) => this.set(change), {
      only: (ids) =>
        this.set({ runs: this.view.runs.map((run) => ({ ...run, hidden: !ids.includes(run.id) })) }),
      point: (id) => this.#point(id),
    });
    this.numbers = new RunNumbers(app.api, {
      changed: () => this.#showRunCharts(),
      failed: (error) => this.#failed(error),
    });
    this.runBoard = new RunBoard({
      charts: () => this.view.charts,
      set: (charts) => this.set({ charts }),
      choices: () =>
        quantities(
          this.data.names().filter(isOutcome),
          this.data.details().map(({ detail }) => detail?.config),
        ),
      point: (id) => this.#point(id),
    });
    this.media = new MediaCompare(app.api);
    this.count = el("span.muted");
    this.progress = el("span.progressing", { hidden: true });
    this.report = el(
      "a.btn",
      {
        download: "",
        title: "These runs and their alerts as one HTML file that needs no server",
      },
      icon("down"),
      "Report",
    );
    this.failure = el("p.card.pad.failure", { role: "status", hidden: true });
    this.nothing = el("div");
  }

  #runsTable() {
    return new RunsTable({
      show: (id) =>
        this.set({
          runs: this.view.runs.map((run) => (run.id === id ? { ...run, hidden: !run.hidden } : run)),
        }),
      all: (shown) => this.set({ runs: this.view.runs.map((run) => ({ ...run, hidden: !shown })) }),
      point: (id) => this.#point(id),
      pin: (id) => this.set({ base: this.view.base === id ? null : id }),
      drop: (id) =>
        this.set({
          runs: this.view.runs.filter((run) => run.id !== id),
          base: this.view.base === id ? null : this.view.base,
        }),
    });
  }

  /** @param {string | null} id of a run */
  #point(id) {
    this.board.light(id === null ? null : this.data.lineOf(id));
  }

  /** @param {string | null} id of a run or a group */
  #lit(id) {
    this.runs.light(id);
    this.sweep.parallel.light(id);
  }

  #frame() {
    return [
      el(
        "div.pagehead",
        {},
        el("h1", {}, "Compare"),
        this.count,
        this.progress,
        el("span.grow"),
        copyButton("Copy link", () => location.href),
        this.report,
        this.picker.node,
        this.picker.options,
      ),
      this.failure,
      this.nothing,
      el(
        "div.comparison",
        {},
        el("h2.vh", {}, "Runs"),
        this.runs.node,
        this.bar.node,
        this.groups.node,
        el("h2.vh", {}, "Charts"),
        this.board.node,
        this.runBoard.node,
        this.media.node,
        this.sweep.node,
        this.settings,
      ),
    ];
  }

  open() {
    this.app.title("Compare");
    this.stopPaper = fitPaper(this.board.node);
    refill(this.main, ...this.#frame());
    this.key = (/** @type {KeyboardEvent} */ event) => this.#key(event);
    this.ontheme = () => this.board.draw();
    document.addEventListener("keydown", this.key);
    addEventListener("themechange", this.ontheme);
    this.stopAlerts = this.app.alerts.onChange(() => this.#tablesSoon());
    this.stopReconnect = this.app.live.onReconnect(() => void this.data.runs.refresh());
    this.ticker = setInterval(() => {
      if (document.hidden || (this.data.many && !this.data.live)) return;
      void this.data.runs.refresh().then(() => this.data.wantSums(true));
      this.#wantNumbers(true);
    }, REFRESH_MS);
    this.#pin();
    this.#look();
    this.board.load(this.app.session.plotly).catch((error) => this.#failed(error));
  }

  close() {
    this.closed = true;
    if (this.key) document.removeEventListener("keydown", this.key);
    if (this.ontheme) removeEventListener("themechange", this.ontheme);
    this.stopAlerts?.();
    this.stopReconnect?.();
    this.stopPaper?.();
    clearInterval(this.ticker);
    clearTimeout(this.#tabling);
    this.data.runs.close();
    this.data.sums.close();
    this.numbers.close();
    this.runBoard.close();
    this.board.close();
  }

  moved() {
    this.view = this.layout.within(readCompare(askedIn(location)), askedIn(location));
    this.#pin();
    this.#look();
    return true;
  }

  /** Pin the cross line where the address says. */
  #pin() {
    const { at } = this.view;
    this.board.cross.pin(at === null ? null : this.data.placed(at));
  }

  /** @param {Partial<CompareView>} change */
  set(change) {
    const view = { ...this.view, ...change };
    this.view = { ...view, standard: this.layout.saved !== "" && COMPARE_LAYOUT.text(view) === "" };
    if ("x" in change || "logX" in change) this.#pin();
    history.replaceState(null, "", addressOf(location.pathname, writeCompare(this.view)));
    this.#look();
  }

  /** Apply the view. */
  #look() {
    const { lit } = this.board;
    const drawn = (/** @type {string} */ id) => this.view.runs.some((run) => this.data.lineOf(run.id) === id);
    if (lit !== null && !drawn(lit)) this.board.lit = null;
    document.documentElement.classList.toggle("has-full", this.view.full !== null);
    this.#showHead();
    this.bar.show(this.view);
    this.#showNothing();
    this.board.arrange();
    this.runBoard.arrange();
    this.#wantNumbers();
    this.data.runs.look();
    this.data.wantSums();
    this.#tables();
    this.board.draw();
  }

  /** @param {boolean} [again] */
  #wantNumbers(again = false) {
    const ids = this.view.runs.map(({ id }) => id);
    void this.numbers.want(this.runBoard.metrics(), ids, again);
  }

  /** Draw the charts of the visible runs whose details are loaded. */
  #showRunCharts() {
    const hidden = new Set(this.view.runs.flatMap(({ id, hidden: off }) => (off ? [id] : [])));
    const runs = this.data.details().flatMap(({ id, ink, detail }) => {
      if (!detail || hidden.has(id)) return [];
      const { name, config } = detail;
      return [{ id, name, ink, config, metrics: this.numbers.of(id) }];
    });
    this.runBoard.show(runs);
    this.media.show(runs.map(({ id, name }) => ({ id, name })));
  }

  /** Show how many runs are compared, and link the report of these. */
  #showHead() {
    const { runs, series } = this.view;
    const maximum = runs.length === MOST_RUNS ? ", the maximum" : "";
    const limit = this.data.many
      ? "one line per group"
      : runs.length > MOST_REPORTED
        ? `reports hold at most ${MOST_REPORTED}`
        : "";
    say(this.count, runs.length ? dotted(`${counted(runs.length, "run")}${maximum}`, limit) : "");
    this.report.hidden = runs.length < 2 || runs.length > MOST_REPORTED;
    const ids = runs.map((run) => run.id);
    this.report.setAttribute("href", this.report.hidden ? "" : outside(this.app.api.report(ids, series)));
  }

  /** Show the layout of the project, if all runs are of one. */
  #wantLayout() {
    const projects = new Set(this.data.details().map(({ detail }) => detail?.project ?? ""));
    const [project] = projects;
    if (projects.size === 1) void this.layout.of(project);
  }

  #showProgress() {
    const { progress } = this.data;
    this.progress.hidden = !progress;
    say(this.progress, progress);
  }

  #showNothing() {
    const none = !this.view.runs.length;
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

  #tables() {
    const began = performance.now();
    this.#wantLayout();
    this.data.wantSums();
    this.bar.show(this.view); // with the metrics of the runs that arrived
    this.#showProgress();
    this.runs.node.hidden = this.settings.hidden = this.data.many;
    if (this.data.many) {
      this.sweep.node.hidden = true;
      return this.groups.show(groupRowsOf(this.data, this.#kinds()));
    }
    const rows = this.#rows(this.board.cross.step);
    this.runs.show(
      this.data.loading && !this.data.ready ? rows.slice(0, FIRST_ROWS) : rows,
      this.data.base(),
    );
    this.groups.show(groupRowsOf(this.data, this.#kinds()));
    if (!this.data.loading) this.#below();
    this.tablesTook = performance.now() - began;
  }

  /** Show what is below the charts. */
  #below() {
    this.sweep.show(outcomesOf(this.data), this.view, this.data.names().filter(isOutcome));
    this.#showRunCharts();
    settingsTable(
      this.settings,
      this.data.details(),
      this.view.same,
      () => this.set({ same: !this.view.same }),
      this.data.base(),
    );
  }

  /** @param {number | null} x */
  #rows(x) {
    return this.data.many ? [] : rowsOf(this.data, this.#kinds(), x);
  }

  #kinds() {
    return this.board.panels.map((panel) => panel.kind);
  }

  /** @param {Error} error */
  #failed(error) {
    this.failure.hidden = false;
    refill(
      this.failure,
      `${error.message} Data already shown stays. `,
      button("Try now", () => {
        this.failure.hidden = true;
        void this.data.runs.refresh();
        this.data.runs.reload();
      }),
    );
  }

  /** @param {number} factor by which the visible part of the x axis grows, around the cross line */
  #zoomBy(factor) {
    const range = this.data.range();
    const [from, to] = zoomedAt(range, zoomCenter(range, this.board.cross.step), factor).map((x) =>
      this.data.natural(x),
    );
    this.set({ from, to });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (!isShortcut(event)) return;
    if (event.key.toLowerCase() === "r") this.set({ from: null, to: null, limits: {} });
    const factor = keyFactor(event.key);
    if (factor !== null) this.#zoomBy(factor);
    if (event.key === "d" && this.view.runs.length > 1) this.set({ difference: !this.view.difference });
    if (event.key !== "Escape") return;
    if (this.view.full !== null) this.set({ full: null });
    else this.board.cross.release();
  }
}

/** @type {OpenPage} */
export function comparePage(app, main) {
  const page = new ComparePage(app, main);
  page.open();
  return { close: () => page.close(), moved: () => page.moved() };
}
