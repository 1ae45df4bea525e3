/**
 * The ranks of a distributed run beside each other: the slowest in words, and a table. Hidden for a run of
 * one
 * process.
 *
 * Data: its own feed (data/feed.js), and the writers of the run from the page. Draws: HTML, from
 * lib/charts/rankstats.js.
 */

import { el, refill, say } from "../browser/dom.js";
import { Feed } from "../data/feed.js";
import { rankRows, rankWords, seconds } from "../lib/charts/rankstats.js";
import { int, num } from "../lib/format.js";

/** Buckets of all ranks together, so that a thousand ranks load as fast as eight. */
const BUCKETS = { all: 20_000, least: 50, most: 400 };
const NAMES = ["step_time", "data_time", "loss"];
/** Rows in the table, the slowest first. */
const MOST = 64;
/** The table is rewritten at most this often. */
const REST_MS = 1_000;

const HEADS = ["Rank", "Host", "Last step", "Step time", "Vs. fastest", "Data wait", "Loss"];

export class RankCard {
  /** @type {RunDetail["writers"]} */
  #writers = [];
  /** Ranks of the newest attempt. */
  count = 0;
  #asked = "";
  #drawn = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #waiting;

  /**
   * @param {App} app
   * @param {string} run
   */
  constructor(app, run) {
    this.words = el("p.pad", { role: "status" });
    this.body = el("tbody");
    this.more = el("p.micro.pad", { hidden: true });
    this.node = el(
      "div.card.rankcard",
      {},
      this.words,
      el(
        "div.scroll",
        { tabindex: "0", role: "region", "aria-label": "Table of ranks" },
        el(
          "table.plain-table",
          {},
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              ...HEADS.map((text, i) => el("th", { scope: "col", class: i === 1 ? "" : "n" }, text)),
            ),
          ),
          this.body,
        ),
      ),
      this.more,
    );
    this.feed = new Feed(app.api, app.live, run, {
      changed: () => this.#soon(),
      failed: () => {}, // the page says so, and this table keeps its values
    });
  }

  close() {
    clearTimeout(this.#waiting);
    this.feed.close();
  }

  /**
   * Show the ranks of the newest attempt in the window.
   *
   * @param {RunDetail["writers"]} writers
   * @param {StepWindow} window
   */
  show(writers, window) {
    const newest = Math.max(0, ...writers.map(({ attempt }) => attempt));
    this.count = new Set(writers.filter(({ attempt }) => attempt === newest).map(({ rank }) => rank)).size;
    this.#writers = writers;
    this.look(window);
    if (this.count > 1) this.#soon();
  }

  /** @param {StepWindow} window */
  look(window) {
    const asked = JSON.stringify([this.count, window]);
    if (this.count < 2 || asked === this.#asked) return;
    this.#asked = asked;
    const buckets = Math.round(Math.max(BUCKETS.least, Math.min(BUCKETS.most, BUCKETS.all / this.count)));
    void this.feed.load(NAMES, { ...window, buckets });
  }

  #soon() {
    this.#waiting ??= setTimeout(() => {
      this.#waiting = undefined;
      this.#draw();
    }, REST_MS);
  }

  #draw() {
    if (!this.feed.ready) return;
    const rows = rankRows(this.#writers, (name) => this.feed.set.get(name));
    const key = JSON.stringify(rows);
    if (key === this.#drawn) return;
    this.#drawn = key;
    say(this.words, rankWords(rows).join(" ") || "No rank reports its step time.");
    const shown = rows.length > MOST ? [...rows].sort((a, b) => Number(b.time) - Number(a.time)) : rows;
    refill(this.body, ...shown.slice(0, MOST).map((row) => rowOf(row)));
    this.more.hidden = rows.length <= MOST;
    say(this.more, `The slowest ${MOST} of ${int(rows.length)} ranks.`);
  }
}

/** @param {import("../lib/charts/rankstats.js").RankRow} row */
function rowOf({ rank, host, connected, last, time, times, data, loss }) {
  return el(
    "tr",
    { "data-rank": String(rank), class: connected ? "" : "muted", title: connected ? null : "not connected" },
    el("th.n", { scope: "row" }, int(rank)),
    el("td", {}, host || "–"),
    el("td.n", {}, last === null ? "–" : int(last)),
    el("td.n", {}, seconds(time)),
    el("td.n", {}, times === null ? "–" : `${num(times, 3)}x`),
    el("td.n", {}, seconds(data)),
    el("td.n", { class: loss !== null && !Number.isFinite(loss) ? "is-critical" : "" }, num(loss)),
  );
}
