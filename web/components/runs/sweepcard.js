/**
 * How a metric of the compared runs depends on their settings: the best run, parallel coordinates and the
 * table of settings.
 */

import { el, refill, say } from "../../browser/dom.js";
import { bestIntact, bestOf, influences } from "../../lib/charts/sweep.js";
import { num } from "../../lib/format.js";
import { runAddress } from "../../lib/route.js";
import { icon } from "../icons.js";
import { selectInput } from "../inputs.js";
import { InfluenceTable } from "./influencetable.js";
import { Parallel } from "./parallel.js";

/**
 * @typedef {import("../../lib/charts/sweep.js").Goal} Goal
 * @typedef {import("../../lib/charts/sweep.js").Outcome} Outcome
 */

const GOALS = /** @type {const} */ ([
  ["last", "Last, lower is better"],
  ["last-high", "Last, higher is better"],
  ["min", "Smallest"],
  ["max", "Largest"],
]);
/** As many metrics as can be chosen. */
const MOST_LISTED = 300;

export class SweepCard {
  #key = "";
  #names = "";

  /**
   * @param {(change: { metric?: string, goal?: Goal }) => void} set
   * @param {{ only: (ids: string[]) => void, point: (id: string | null) => void }} acts
   */
  constructor(set, acts) {
    this.parallel = new Parallel(acts);
    this.metric = selectInput([], "", {
      "aria-label": "Metric",
      onchange: () => set({ metric: this.metric.value }),
    });
    this.goal = selectInput(GOALS, "last", {
      "aria-label": "Value of the metric",
      onchange: () => set({ goal: /** @type {Goal} */ (this.goal.value) }),
    });
    this.best = el("p");
    this.table = new InfluenceTable();
    this.node = el(
      "section.card.pad.then.sweep",
      { "aria-label": "Settings and metric", hidden: true },
      el(
        "div.bar",
        {},
        el("h2", {}, "What matters"),
        this.metric,
        this.goal,
        el("span.grow"),
        this.table.csv,
      ),
      this.best,
      this.parallel.node,
      this.table.node,
    );
  }

  /**
   * @param {Outcome[]} runs those that are visible
   * @param {{ metric: string, goal: Goal }} chosen
   * @param {string[]} names metrics to choose from
   */
  show(runs, { metric, goal }, names) {
    this.#choices(names, metric, goal);
    const key = JSON.stringify([
      metric,
      goal,
      runs.map(({ id, name, trouble, state, value }) => [id, name, trouble, state, value]),
    ]);
    if (key === this.#key) return;
    this.#key = key;
    const measured = runs.filter((run) => run.value !== null);
    const rows = influences(runs, goal);
    this.node.hidden = runs.length < 2;
    this.#showBest(runs, goal, metric);
    this.table.node.hidden = this.table.csv.hidden = !rows.length;
    const bad = measured.filter((run) => !Number.isFinite(run.value)).length;
    this.parallel.show(
      runs,
      metric,
      goal,
      rows.map((row) => row.key),
    );
    this.table.show(rows, { metric, runs: measured.length, bad });
  }

  /**
   * @param {string[]} names
   * @param {string} metric
   * @param {Goal} goal
   */
  #choices(names, metric, goal) {
    const listed = [...new Set([metric, ...names.slice(0, MOST_LISTED)])].sort();
    if (listed.join("\n") !== this.#names) {
      this.#names = listed.join("\n");
      refill(this.metric, ...listed.map((name) => el("option", { value: name }, name)));
    }
    this.metric.value = metric;
    this.goal.value = goal;
  }

  /**
   * @param {Outcome[]} runs
   * @param {Goal} goal
   * @param {string} metric
   */
  #showBest(runs, goal, metric) {
    const best = bestIntact(runs, goal);
    const first = bestOf(runs, goal);
    if (!best || !first) return say(this.best, `No run has a finite value of ${metric}.`);
    const named = (/** @type {Outcome} */ run) => [
      el("a.strong", { href: runAddress(run.id) }, run.name),
      ` with ${metric} ${num(run.value)}`,
    ];
    refill(
      this.best,
      "Best run: ",
      ...named(best),
      ...(first === best ? [] : [" · better, but with a problem: ", ...named(first)]),
      first.trouble ? el("span.is-critical", {}, " ", icon("critical"), ` ${first.trouble}`) : null,
    );
  }
}
