/**
 * The charts of an incident: the vital signs and the signal of the alert, around the onset.
 *
 * Data: data/rundata.js loads the window and follows the live socket. Draws: panels/vitals.js.
 */

import { el, refill, say } from "../browser/dom.js";
import { loadPlotly } from "../browser/plotly.js";
import { menu } from "../components/menu.js";
import { showValues } from "../components/runs/valuetable.js";
import { seriesValues } from "./metric.js";
import { RunData } from "../data/rundata.js";
import { onsetWindow, wider } from "../lib/charts/onsetwindow.js";
import { STEPS } from "../lib/charts/timeaxis.js";
import { int } from "../lib/format.js";
import { gradNorm } from "./grad-norm.js";
import { learningRate } from "./learning-rate.js";
import { loss } from "./loss.js";
import { isMetric, metric } from "./metric.js";
import { Plots } from "./plot.js";
import { scale } from "./scale.js";
import { Vitals } from "./vitals.js";
import { AUTOMATIC } from "../lib/views/scales.js";

const BUCKETS = 600;
/** Pixels of a chart: four of them, and the heading, fit on a screen of 900. */
const HEIGHT = 124;
/** With fewer points in the window, it is made wider. */
const FEWEST = 24;

export class OnsetCharts {
  /** @type {Plots} */
  #plots;
  /** @type {[number, number] | null} */
  #range = null;
  #closed = false;
  /** Whether all lines have arrived: the charts are drawn only then, so that their axes don't jump. */
  #settled = false;
  /** Whether a user chose the window. */
  #zoomed = false;

  /**
   * @param {App} app
   * @param {import("../lib/alerts/incidents.js").Incident} incident
   * @param {(step: number) => void} open shows a flag in all charts of the run
   */
  constructor(app, incident, open) {
    this.app = app;
    this.incident = incident;
    const subject = incident.lead.subject;
    const kinds = [loss, gradNorm, scale, learningRate];
    this.kinds = (subject && isMetric(subject) ? [metric(subject), ...kinds] : kinds).map((kind) => ({
      ...kind,
      height: Math.min(kind.height, HEIGHT),
    }));
    this.data = new RunData(
      app,
      incident.run_id,
      {
        row: () => {},
        details: () => this.#received(),
        series: ({ complete }) => (complete ? this.#received() : this.draw()),
        failed: (error) => this.#failed(error),
      },
      this.kinds.map(({ name }) => name),
    );
    this.vitals = new Vitals(
      {
        scene: () => this.#scene(),
        pinned: () => {},
        pointed: () => {},
        resized: () => this.draw(),
        chose: ({ step }) => open(step),
      },
      (panel) => this.#menu(panel),
      this.kinds,
    );
    this.failure = el("p.soft.pad", { hidden: true });
    this.text = el("span.muted");
    this.node = el(
      "section.onset",
      { "aria-label": "Charts of the onset" },
      el("div.bar", {}, el("h2", {}, "Onset"), this.text),
      this.failure,
      this.vitals.node,
    );
    this.#plots = new Plots(
      () =>
        loadPlotly(app.session.plotly).catch((error) => {
          this.#failed(error);
          return null;
        }),
      (range) => {
        this.#zoomed = range !== null;
        this.#look(range ?? onsetWindow(this.incident));
      },
    );
    this.ontheme = () => this.draw();
    addEventListener("themechange", this.ontheme);
    this.#look(onsetWindow(incident));
    void this.data.refresh();
  }

  /** @param {import("./panel.js").Panel} panel */
  #menu({ kind: { name, title } }) {
    const show = () => showValues(this.app.api, this.incident.run_id, seriesValues(name), this.#window());
    return menu(`Chart menu of ${title}`, () => [{ text: "Show values", act: () => void show() }]);
  }

  /** @returns {StepWindow} */
  #window() {
    const [from, to] = this.#shown();
    return { from: Math.max(0, Math.floor(from)), to: Math.ceil(to) };
  }

  /** @param {import("../lib/alerts/incidents.js").Incident} incident with other alerts or another state */
  show(incident) {
    this.incident = incident;
    this.draw();
  }

  close() {
    this.#closed = true;
    removeEventListener("themechange", this.ontheme);
    this.data.close();
    this.#plots.close();
  }

  /** @param {[number, number]} range in steps */
  #look(range) {
    this.#range = range;
    void this.data.only({ from: Math.max(0, Math.floor(range[0])), to: Math.ceil(range[1]) }, BUCKETS);
  }

  /** The series of the window, or the details of the run, arrived: make a window with few points wider. */
  #received() {
    this.failure.hidden = true;
    const range = this.#range;
    const points = Math.max(
      0,
      ...this.kinds.flatMap(({ name }) => this.data.layers(name).map((layer) => layer.x.length)),
    );
    const last = this.data.row?.last_step ?? null;
    if (this.data.ready && range && points < FEWEST && last !== null && !this.#zoomed) {
      const next = wider(range, last);
      if (next) return this.#look(next);
    }
    this.draw();
  }

  /** @param {Error} error */
  #failed(error) {
    if (this.#closed) return;
    this.#settled = true;
    this.failure.hidden = false;
    refill(this.failure, `These charts did not load: ${error.message}`);
  }

  draw() {
    this.#settled ||= this.data.settled;
    if (this.#closed || !this.#range || !this.#settled) return;
    const [from, to] = this.#shown();
    say(this.text, `steps ${int(Math.round(from))} to ${int(Math.round(to))}`);
    if (this.data.ready) this.vitals.draw(this.#plots);
  }

  /**
   * The window, without the part before the first and after the last record.
   *
   * @returns {[number, number]}
   */
  #shown() {
    const [from, to] = this.#range ?? [0, 1];
    const last = this.data.row?.last_step ?? to;
    const end = Math.max(Math.min(to, last), Math.min(from + 1, to));
    return [Math.max(0, from), end];
  }

  /** @returns {import("./vitals.js").Scene} */
  #scene() {
    const { data, incident } = this;
    return {
      range: this.#shown(),
      window: this.#shown(),
      last: data.last ?? this.#shown()[1],
      alerts: incident.alerts.map((alert) =>
        alert === incident.lead ? { ...alert, onset_step: incident.onset_step } : alert,
      ),
      events: data.events,
      chosen: incident.lead.id,
      reported: data.reported(),
      restarts: data.restarts(),
      timeline: STEPS,
      scales: AUTOMATIC,
      look: { smooth: 0, older: [], ranks: "band", timeline: STEPS },
      layers: (name) => data.layers(name),
    };
  }
}
