/**
 * One run: vital signs, alerts with their diagnosis, and all other metrics.
 *
 * Data: data/rundata.js loads the run and its vital signs and follows the live socket; the panels of
 * panels/metricpanels.js load their own series. State: the address, held by pages/run/navigation.js, read and
 * written by lib/views/runview.js. View: pages/run/charts.js says in scene() what the charts draw. Alerts are
 * in components/alerts/aside.js.
 */

import { el, refill, say } from "../browser/dom.js";
import { isAbsent } from "../browser/navigate.js";
import { fitPaper } from "../browser/print.js";
import { alertActs } from "../components/alerts/alertacts.js";
import { Aside, severityChips } from "../components/alerts/aside.js";
import { copyButton } from "../components/code.js";
import { icon } from "../components/icons.js";
import { ResumeFrom } from "../components/incident/checkpoint.js";
import { button, notice } from "../components/notice.js";
import { CompareMenu } from "../components/runs/comparemenu.js";
import { Details } from "../components/runs/details.js";
import { EndingCard } from "../components/runs/ending.js";
import { Gauges } from "../components/runs/gauges.js";
import { RunHead } from "../components/runs/runhead.js";
import { ApiError } from "../data/http.js";
import { RunData } from "../data/rundata.js";
import { readView } from "../lib/views/runview.js";
import { RunCharts } from "./run/charts.js";
import { Navigation } from "./run/navigation.js";

/** How often data that the socket doesn't carry (writers, environment) is refreshed. */
const REFRESH_MS = 15_000;

/** How often a run that does not exist yet is looked for: its address is printed before it has connected. */
const ABSENT_MS = 3_000;

/** The page appears after this time also without the details of the run. */
const OPENING_MS = 2_000;

/** The page of a run: `data` holds the values, `nav` what is shown of them, `charts` draws it. */
class RunPage {
  closed = false;
  /** The alerts that the charts last drew. */
  alertKey = "";

  /**
   * @param {App} app
   * @param {HTMLElement} main
   * @param {string} id
   */
  constructor(app, main, id) {
    this.app = app;
    this.main = main;
    this.id = id;
    this.data = new RunData(app, id, {
      row: (row) => this.#showRow(row),
      details: (run) => this.#showDetails(run),
      series: (change) => this.#seriesChanged(change),
      failed: (error) => this.#failed(error),
    });
    this.nav = this.#navigation();
    const may = app.session.scope !== "read";
    this.gauges = new Gauges();
    this.ending = new EndingCard();
    this.head = new RunHead(id, {
      api: app.api,
      may,
      changed: (row) => this.data.edited(row),
      now: () => app.clock.now(),
    });
    this.compare = new CompareMenu(app.api, id, may, {
      older: () => this.nav.view.older,
      show: (older) => this.nav.set({ older }),
    });
    this.details = this.#details(may);
    this.aside = this.#aside();
    this.charts = new RunCharts(app, id, {
      data: this.data,
      nav: this.nav,
      chosen: () => this.aside.current(),
      pinned: (step) => {
        this.nav.pinned(step);
        this.details.mark(step);
      },
      failed: (error) => {
        this.simple.hidden = false;
        refill(this.simple, icon("offline"), ` ${error.message} Until then, charts cannot be zoomed.`);
      },
    });
    this.project = el("span", {}, "–");
    this.chips = el("span.row");
    this.failure = el("p.card.pad.failure", { role: "status", hidden: true });
    /** Why the charts are only sketched. */
    this.simple = el("p.card.pad.failure", { role: "status", hidden: true });
  }

  /** @returns {Navigation} */
  #navigation() {
    return new Navigation(this.data, {
      alerts: () => this.app.alerts.of(this.id),
      chosen: () => this.aside.current(),
      step: () => this.charts.vitals.cross.step,
      release: () => this.charts.vitals.cross.release(),
      moved: () => this.charts.look(),
      restyled: () => this.charts.restyle(),
      marked: (step) => {
        this.#mark(step);
        this.charts.vitals.node.scrollIntoView({ block: "nearest" });
      },
      switched: () => this.aside.draw(),
    });
  }

  /** @param {boolean} may edit */
  #details(may) {
    const { app, id } = this;
    return new Details(
      (step) => this.nav.go(step),
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
      (attempt) => app.alerting.attemptChanges(id, attempt),
    );
  }

  /** @returns {Aside} */
  #aside() {
    const { app, id, nav } = this;
    return new Aside({
      alerts: () => app.alerts.of(id),
      chosen: () => nav.view.alert,
      mostSevere: () => this.data.row?.reason?.alert ?? null,
      choose: (alert) => nav.choose(alert.id, alert.onset_step),
      loaded: () => app.alerts.loaded,
      acts: (alert) => alertActs(app, alert),
      resume: new ResumeFrom(app),
      go: (step) => nav.go(step),
      around: (alert) => nav.around(alert),
      now: () => app.clock.now(),
    });
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
    if (isAbsent()) return this.#unknown();
    refill(
      this.main,
      this.#pageHead(),
      this.head.deleting,
      this.aside.callout,
      this.failure,
      this.simple,
      this.ending.node,
      this.gauges.node,
      this.charts.overview.node,
      el("div.runcols", {}, this.charts.node, this.aside.node),
      this.details.node,
    );
    this.app.title("Run");
    this.stopPaper = fitPaper(this.charts.node, this.charts.vitals.node);
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
    this.onkey = (/** @type {KeyboardEvent} */ event) => this.nav.key(event);
    this.ontheme = () => {
      this.charts.draw();
      this.charts.layers.draw();
    };
    document.addEventListener("keydown", this.onkey);
    addEventListener("themechange", this.ontheme);
    this.#mark(this.nav.view.at);
    this.charts.restyle();
    this.data.load(this.charts.bucketsOfWhole(), this.nav.window().logFrom);
    void this.#opened();
  }

  /** Show the page once it is known what it has, so that nothing on it moves; a slow server is waited for. */
  async #opened() {
    this.main.classList.add("is-opening");
    const shown = setTimeout(() => this.main.classList.remove("is-opening"), OPENING_MS);
    const details = this.data.refresh().then(() => {
      if (!this.closed) this.charts.look();
    });
    const asked = this.app.alerts.now();
    const alerts = this.app.alerting
      .alerts({ run: this.id })
      .then(({ items }) => this.app.alerts.learn(items, asked))
      .catch(() => {});
    await Promise.all([details, alerts]);
    clearTimeout(shown);
    if (!this.closed) this.main.classList.remove("is-opening");
  }

  close() {
    this.closed = true;
    this.main.classList.remove("is-opening");
    this.stopAlerts?.();
    this.stopMarks?.();
    this.stopReconnect?.();
    this.stopPaper?.();
    clearInterval(this.ticker);
    clearInterval(this.refresher);
    clearInterval(this.absent);
    this.absent = undefined;
    if (this.onkey) document.removeEventListener("keydown", this.onkey);
    if (this.ontheme) removeEventListener("themechange", this.ontheme);
    this.data.close();
    this.charts.close();
    this.details.notes.close();
  }

  /** Handle a changed address that still names this run. */
  moved() {
    this.nav.view = this.charts.metrics.layout.within(readView(location.search), location.search);
    this.#mark(this.nav.view.at);
    this.charts.restyle();
    this.charts.look();
    return true;
  }

  /** @param {number | null} step of the cross line */
  #mark(step) {
    this.charts.vitals.cross.pin(step);
    this.details.mark(step);
  }

  /** @param {RunRow} row */
  #showRow(row) {
    say(this.project, row.project);
    this.head.show(row);
    this.compare.show(row);
    void this.charts.metrics.layout.of(row.project);
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
    this.charts.offer(run);
    this.compare.offer(run.attempts_list);
  }

  /** @param {{ complete: boolean, grew: boolean, finer?: boolean }} change */
  #seriesChanged({ complete, grew, finer }) {
    this.failure.hidden = true;
    if (complete) this.charts.showControls();
    if (grew) this.charts.drawVitals();
    if (finer) this.charts.plots.hurry();
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
        "It may have been deleted, or it is on another server. If it is just starting, it appears here.",
        el("a.btn.primary", { href: "/" }, "All runs"),
      ),
    );
    this.close();
    this.absent = setInterval(() => void this.#lookAgain(), ABSENT_MS);
  }

  async #lookAgain() {
    if (document.hidden) return;
    const found = await this.app.api.rowsOf([this.id]).catch(() => null);
    if (found?.items.length && this.absent) location.reload();
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
    this.charts.draw();
  }

  #tick() {
    const { row } = this.data;
    if (row) {
      this.gauges.show(row, this.app.clock.now());
      this.head.show(row);
    }
    this.aside.draw();
    if (row?.state === "running" && !document.hidden) this.details.follow();
    this.charts.drawOverview();
  }
}

/** @type {OpenPage} */
export function runPage(app, main, id) {
  const page = new RunPage(app, main, id);
  page.open();
  return { close: () => page.close(), moved: () => page.moved() };
}
