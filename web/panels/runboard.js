/**
 * Charts of the compared runs in which each run is a point, a bar or a count; the reader adds them.
 *
 * Data: data/runnumbers.js and the configs, which the page passes on. Draws: one module for each kind in
 * panels/runcharts/index.js.
 */

import { el, refill, say, sizeObserver } from "../browser/dom.js";
import { menu } from "../components/menu.js";
import { runChartForm } from "../components/runs/runchartform.js";
import { valuesDialog, valueTable } from "../components/runs/valuesdialog.js";
import { numberOfRun, quantityText, textOfRun } from "../lib/charts/quantity.js";
import { metricsIn, readRunChart } from "../lib/charts/runcharts.js";
import { counted, dotted, num } from "../lib/format.js";
import { runAddress } from "../lib/route.js";
import { RUN_CHART_KINDS } from "./runcharts/index.js";

/**
 * @typedef {import("../lib/charts/quantity.js").RunNumbers} RunNumbers
 * @typedef {{ charts: () => string[], set: (charts: string[]) => void, choices: () => string[], point: (id:
 *   string | null) => void }} BoardSource choices: quantities that can be chosen
 */

/** Runs named below a chart. */
const MOST_NAMED = 8;

export class RunBoard {
  /** @type {Map<string, Card>} */
  #cards = new Map();
  /** @type {RunNumbers[]} */
  #runs = [];
  #key = "";

  /** @param {BoardSource} source */
  constructor(source) {
    this.source = source;
    this.grid = el("div.runcharts");
    this.node = el(
      "section.then",
      { "aria-label": "Charts of runs" },
      el(
        "div.sec",
        {},
        el("h2", {}, "Charts of runs"),
        el("span.grow"),
        el("button.btn", { type: "button", onclick: () => this.#edit(null) }, "Add chart"),
      ),
      this.grid,
    );
    this.sizes = sizeObserver((entries) => {
      for (const { target } of entries) {
        [...this.#cards.values()].find((card) => card.plot === target)?.draw(this.#runs);
      }
    });
    this.grid.addEventListener("pointerleave", () => source.point(null));
  }

  close() {
    this.sizes.disconnect();
  }

  /** The metrics that its charts need. */
  metrics() {
    return metricsIn(this.source.charts());
  }

  /** Create a card for each chart of the view. */
  arrange() {
    const charts = this.source.charts();
    const key = charts.join("\0");
    if (key === this.#key) return;
    this.#key = key;
    for (const [text, card] of this.#cards) {
      if (charts.includes(text)) continue;
      this.sizes.unobserve(card.plot);
      this.#cards.delete(text);
    }
    for (const text of charts.filter((each) => !this.#cards.has(each))) {
      const card = new Card(text, this.source, () => this.#items(text));
      this.#cards.set(text, card);
      this.sizes.observe(card.plot);
    }
    refill(this.grid, ...charts.map((text) => /** @type {Card} */ (this.#cards.get(text)).node));
  }

  /** @param {RunNumbers[]} runs those that are visible */
  show(runs) {
    this.#runs = runs;
    for (const card of this.#cards.values()) card.draw(runs);
  }

  /**
   * @param {string} text
   * @returns {import("../components/menu.js").Item[]}
   */
  #items(text) {
    const { charts, set } = this.source;
    const place = charts().indexOf(text);
    const move = (/** @type {number} */ by) => {
      const rest = charts().filter((each) => each !== text);
      const to = Math.max(0, place + by);
      set([...rest.slice(0, to), text, ...rest.slice(to)]);
    };
    return [
      { head: "Chart" },
      { text: "Edit…", act: () => this.#edit(text) },
      { text: "Show values", act: () => showNumbers(text, this.#runs) },
      { text: "Move earlier", act: () => move(-1) },
      { text: "Move later", act: () => move(1) },
      { text: "Remove", act: () => set(charts().filter((each) => each !== text)) },
    ];
  }

  /** @param {string | null} text null: add one */
  #edit(text) {
    const { charts, set, choices } = this.source;
    runChartForm({
      before: text,
      kinds: RUN_CHART_KINDS,
      choices: choices(),
      save: (made) =>
        set(
          text === null
            ? [...charts().filter((each) => each !== made), made]
            : [...new Set(charts().map((each) => (each === text ? made : each)))],
        ),
    });
  }
}

class Card {
  #key = "";

  /**
   * @param {string} text
   * @param {BoardSource} source
   * @param {() => import("../components/menu.js").Item[]} items
   */
  constructor(text, source, items) {
    const chart = readRunChart(text);
    const title = (chart?.quantities ?? []).map(quantityText).reverse().join(" by ");
    this.source = source;
    this.chart = chart;
    this.kind = RUN_CHART_KINDS.find(({ kind }) => kind === chart?.kind);
    this.words = el("p.micro.runchart-words", { role: "status" });
    this.named = el("p.micro", { role: "status" });
    this.plot = el("div.runchart");
    this.node = el(
      "section.card.panel",
      { "aria-label": `${this.kind?.title ?? "Chart"}: ${title}`, "data-chart": text },
      el(
        "div.panelhead",
        {},
        el("h3", { title }, title),
        el("span.micro.extra", {}, this.kind?.title ?? ""),
        el("span.grow"),
        menu(`Chart menu of ${title}`, items),
      ),
      this.plot,
      this.words,
      this.named,
    );
  }

  /** @param {RunNumbers[]} runs */
  draw(runs) {
    const width = Math.round(this.plot.clientWidth);
    if (!this.kind || !this.chart || !width) return;
    const { quantities } = this.chart;
    const numbers = runs.map((run) => [
      run.id,
      run.name,
      run.ink,
      ...quantities.map((each) => [
        String(numberOfRun(each, run)),
        each.source === "config" && textOfRun(each, run),
      ]),
    ]);
    const key = JSON.stringify([width, numbers]);
    if (key === this.#key) return;
    this.#key = key;
    const acts = { point: this.source.point, show: (/** @type {RunNumbers[]} */ at) => this.#show(at) };
    const { node, words, missing } = this.kind.draw(runs, quantities, width, acts);
    refill(this.plot, node);
    const without = missing ? `${counted(missing, "run")} without a finite value` : "";
    say(this.words, dotted(words, without));
  }

  /** @param {RunNumbers[]} runs */
  #show(runs) {
    const shown = runs.slice(0, MOST_NAMED).flatMap((run, i) => {
      const values = (this.chart?.quantities ?? []).map((each) => valueText(each, run));
      return [i ? "; " : "", el("a", { href: runAddress(run.id) }, run.name), ` ${dotted(...values)}`];
    });
    const more = runs.length > MOST_NAMED ? `; ${counted(runs.length - MOST_NAMED, "other run")}` : "";
    refill(this.named, ...shown, more);
  }
}

/**
 * @param {import("../lib/charts/quantity.js").Quantity} quantity
 * @param {RunNumbers} run
 */
const valueText = (quantity, run) =>
  (quantity.source === "config" ? textOfRun(quantity, run) : null) ?? num(numberOfRun(quantity, run));

/**
 * @param {string} text
 * @param {RunNumbers[]} runs
 */
function showNumbers(text, runs) {
  const quantities = readRunChart(text)?.quantities ?? [];
  const heads = quantities.map((each) => ({ text: quantityText(each), right: true }));
  const rows = runs.map((run) => [
    el("a", { href: runAddress(run.id) }, run.name),
    ...quantities.map((each) =>
      each.source === "config" ? (textOfRun(each, run) ?? "–") : exact(numberOfRun(each, run)),
    ),
  ]);
  const title = quantities.map(quantityText).reverse().join(" by ");
  refill(valuesDialog(title), valueTable("Runs", [{ text: "Run", right: false }, ...heads], rows));
}

/** @param {number | null} value */
const exact = (value) => (value === null ? "–" : Number.isFinite(value) ? String(value) : num(value));
