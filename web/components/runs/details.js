/** Tabs below the charts: config, summary, environment, series, attempts, checkpoints, events and more. */

import { el, refill } from "../../browser/dom.js";
import { number } from "../../lib/exact.js";
import { flatten, shortened } from "../../lib/flatten.js";
import { int, moment, num } from "../../lib/format.js";
import { notLoaded } from "../undo.js";
import { AttemptChanges } from "./attemptchanges.js";
import { EventLog } from "./eventlog.js";
import { Notes } from "./notes.js";

/** Positions of the tabs that are loaded when they are opened. */
const ATTEMPTS = 4;
const CHECKPOINTS = 5;
const MEDIA = 6;
const CONSOLE = 7;
const CONFIG_CHECK = 8;

/**
 * @typedef {{ node: HTMLElement, load: () => Promise<void> }} Part of a tab, and what loads its data
 * @typedef {import("./consolelog.js").ConsoleLog} Console
 */

export class Details {
  /**
   * @param {(step: number) => void} go moves the charts to a step
   * @param {ConstructorParameters<typeof Notes>[0]} writing
   * @param {() => Promise<CheckpointAnswer>} checkpoints loads the checkpoints of the run
   * @param {import("./medialist.js").Source} media loads its images and other objects
   * @param {Console["ask"]} output loads what the script printed
   * @param {ConstructorParameters<typeof AttemptChanges>[0]} changes loads what differs from an attempt
   */
  constructor(go, writing, checkpoints, media, output, changes) {
    this.changes = new AttemptChanges(changes);
    /** @type {RunDetail | null} */
    this.run = null;
    /** @type {Console | null} */
    this.console = null;
    /** @type {number | null} */
    this.step = null;
    /** @type {Record<number, () => Promise<Part>>} */
    this.makers = {
      [CHECKPOINTS]: async () => new (await import("./checkpointlist.js")).CheckpointList(checkpoints),
      [MEDIA]: async () => new (await import("./medialist.js")).MediaList(media),
      [CONSOLE]: async () => {
        this.console ??= new (await import("./consolelog.js")).ConsoleLog(output, go);
        this.console.mark(this.step);
        return this.console;
      },
    };
    /** @type {Record<number, Part>} */
    this.parts = {};
    /** @type {RunEvent[]} */
    this.events = [];
    this.log = new EventLog(go);
    this.notes = new Notes(writing);
    this.key = "";
    this.chosen = false;
    this.tabs = [
      tab("Config"),
      tab("Summary"),
      tab("Environment"),
      tab("Series"),
      tab("Attempts"),
      tab("Checkpoints"),
      tab("Media"),
      tab("Log"),
      tab("Config check"),
      tab("Events"),
      tab("Notes"),
    ];
    const list = el(
      "div",
      { role: "tablist", "aria-label": "Details" },
      ...this.tabs.map((each) => each.button),
    );
    this.node = el(
      "section.card.tabs",
      { "aria-label": "Details" },
      list,
      ...this.tabs.map((each) => each.panel),
    );
    this.tabs.forEach((each, i) => {
      each.button.addEventListener("click", () => {
        this.chosen = true;
        this.#pick(i);
      });
      each.button.addEventListener("keydown", (event) => this.#key(/** @type {KeyboardEvent} */ (event), i));
    });
    this.#pick(0);
  }

  /** @param {number} chosen */
  #pick(chosen) {
    this.tabs.forEach(({ button, panel }, i) => {
      button.setAttribute("aria-selected", String(i === chosen));
      button.tabIndex = i === chosen ? 0 : -1;
      panel.hidden = i !== chosen;
    });
    if (chosen === ATTEMPTS && this.run) void this.changes.load(this.run);
    void this.#load(chosen).catch(notLoaded);
  }

  /**
   * Load a tab whose code is loaded when it is opened, and its data.
   *
   * @param {number} i
   */
  async #load(i) {
    const { panel } = this.tabs[i];
    if (panel.hidden) return;
    if (i === CONFIG_CHECK && this.run) {
      const { configCheckList } = await import("./configchecklist.js");
      refill(panel, configCheckList(this.events));
    }
    if (!(i in this.makers)) return;
    const made = this.parts[i] ?? (await this.makers[i]());
    const part = (this.parts[i] ??= made);
    if (panel.firstChild !== part.node) refill(panel, part.node);
    await part.load();
  }

  /**
   * Mark the line of a step in the log.
   *
   * @param {number | null} step
   */
  mark(step) {
    this.step = step;
    this.console?.mark(step);
  }

  /** Load new lines of the log while it is visible. */
  follow() {
    void this.#load(CONSOLE).catch(() => {});
  }

  /**
   * @param {KeyboardEvent} event
   * @param {number} i
   */
  #key(event, i) {
    const way = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!way) return;
    const next = (i + way + this.tabs.length) % this.tabs.length;
    this.#pick(next);
    this.tabs[next].button.focus();
  }

  /**
   * @param {RunDetail} run
   * @param {RunEvent[]} events
   */
  show(run, events) {
    const [config, summary, environment, series, attempts, , , , , eventLog, notes] = this.tabs.map(
      (each) => each.panel,
    );
    const { summary: results, ...surroundings } = run.environment ?? {};
    if (notes.firstChild !== this.notes.node) refill(notes, this.notes.node);
    this.notes.show(run.notes ?? "");
    this.run = run;
    if (!attempts.hidden) void this.changes.load(run);
    this.events = events;
    for (const i of [CHECKPOINTS, MEDIA]) void this.#load(i).catch(() => {});
    if (!this.chosen && (run.state === "failed" || run.state === "lost")) this.#pick(CONSOLE);
    this.chosen = true;
    const key = JSON.stringify([
      run.config,
      run.environment,
      run.series,
      run.attempts_list,
      run.writers,
      events.length,
    ]);
    if (key === this.key) return;
    this.key = key;
    refill(config, pairs(run.config, "No config. Pass tocsin.watch(..., config={...}) to record it."));
    refill(
      summary,
      pairs(results, 'No results yet. Set run.summary["best_accuracy"] = 0.93 to record them.'),
    );
    refill(environment, pairs(surroundings, "No training process has connected yet."));
    refill(series, seriesTable(run.series));
    refill(attempts, attemptTable(run), this.changes.node, writerTable(run));
    void this.#load(CONFIG_CHECK).catch(() => {});
    if (eventLog.firstChild !== this.log.node) refill(eventLog, this.log.node);
    this.log.show(events);
  }
}

let serial = 0;
/** @param {string} title */
function tab(title) {
  const id = `details-${serial++}`;
  return {
    button: el("button", { role: "tab", type: "button", id: `${id}-tab`, "aria-controls": id }, title),
    panel: el(
      "div",
      { role: "tabpanel", id, "aria-labelledby": `${id}-tab`, tabindex: "0" },
      el("p.muted", {}, "–"),
    ),
  };
}

/**
 * @param {unknown} value
 * @param {string} empty
 */
function pairs(value, empty) {
  const flat = flatten(value);
  return flat.length
    ? el("dl.kv", {}, ...flat.map(([key, text]) => el("div", {}, el("dt", {}, key), shownValue(text))))
    : el("p.muted", {}, empty);
}

/** @param {string} text */
function shownValue(text) {
  const [shown] = shortened([text]);
  return el("dd", { title: shown === text ? null : text }, shown);
}

/**
 * @param {string[]} heads
 * @param {import("../../browser/dom.js").Kid[][]} rows
 * @param {number[]} right numeric columns
 * @param {string} empty
 */
function table(heads, rows, right, empty) {
  if (!rows.length) return el("p.muted", {}, empty);
  const style = (/** @type {number} */ i) => ({ class: right.includes(i) ? "n" : "" });
  return el(
    "div.scroll",
    { tabindex: "0", role: "region", "aria-label": heads.join(", ") },
    el(
      "table.plain-table",
      {},
      el("thead", {}, el("tr", {}, ...heads.map((head, i) => el("th", { scope: "col", ...style(i) }, head)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, i) => el("td", style(i), cell))))),
    ),
  );
}

/** @param {SeriesRow[]} series */
const seriesTable = (series) =>
  table(
    ["Series", "Records", "First step", "Last step", "Last value"],
    series.map((each) => [
      el("code", {}, each.name),
      int(each.n),
      int(each.first_step),
      int(each.last_step),
      num(number(each.last)),
    ]),
    [1, 2, 3, 4],
    "No series yet.",
  );

/** @param {RunDetail} run */
const attemptTable = (run) =>
  table(
    ["Attempt", "Started", "First step", "Last step"],
    run.attempts_list.map((each) => [
      int(each.attempt),
      moment(each.started_ms),
      int(each.first_step),
      int(each.last_step),
    ]),
    [0, 2, 3],
    "No attempts yet.",
  );

/** @param {RunDetail} run */
const writerTable = (run) =>
  el(
    "div.then",
    {},
    el("h3", {}, "Writers"),
    table(
      ["Attempt", "Rank", "Host", "Process", "Records", "Events", "Connected"],
      run.writers.map((each) => [
        int(each.attempt),
        int(each.rank),
        each.host ?? "–",
        each.pid === null ? "–" : String(each.pid),
        int(each.records),
        int(each.events),
        each.connected ? "yes" : "no",
      ]),
      [0, 1, 4, 5],
      "No training process has written yet.",
    ),
  );
