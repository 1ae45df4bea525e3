/** The backtest of a rule: one strip per stored run with its alerts, and how many were on healthy steps. */

import { el, refill } from "../../browser/dom.js";
import { ApiError } from "../../data/http.js";
import { SeriesSet } from "../../lib/charts/series.js";
import { sentence } from "../../lib/fielderror.js";
import { counted, dotted, int, short } from "../../lib/format.js";
import { incidentAddress, runAddress } from "../../lib/route.js";
import { captionOf, isAbsent, outcomeOf, stepsOf } from "../../lib/rules/rulestrip.js";
import { icon } from "../icons.js";
import { enlarge, strip } from "./trialchart.js";
import { TrialRuns } from "./trialruns.js";

/** After the last key. */
const PAUSE_MS = 450;
/** Another backtest is running; the server runs one at a time. */
const AGAIN_MS = 1500;
const BUCKETS = 240;

/** @typedef {{ projects: string[], runs: string[], tags: string[] }} Globs */
/** @typedef {{ order: Record<string, unknown>, limit: number | null, globs: Globs }} Asked */

export class RuleTrial {
  /**
   * @param {App} app
   * @param {import("../../data/ruleclient.js").RuleClient} client
   * @param {(error: unknown) => boolean} complain returns true if the error is shown at its field
   * @param {(scope: RuleScope) => void} known called with the runs and series of a scope
   */
  constructor(app, client, complain, known) {
    this.app = app;
    this.client = client;
    this.complain = complain;
    this.known = known;
    /** @type {Asked | null} */
    this.asked = null;
    /** The globs of the scope whose runs are offered. */
    this.scoped = "";
    this.runs = new TrialRuns(() => {
      if (this.asked) this.follow(this.asked);
    });
    this.state = el("span.micro", { role: "status" });
    this.numbers = el("div.trialnumbers");
    this.rows = el("div.trialrows");
    this.node = el(
      "section.card.ruletrial",
      { "aria-label": "Backtest" },
      el(
        "div.trialhead",
        {},
        el("div", {}, el("h2", {}, "Backtest"), this.state),
        this.runs.node,
        el("span.grow"),
        this.numbers,
      ),
      this.rows,
    );
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    this.turn = new AbortController();
    /** @type {Map<string, Promise<Map<string, Layer[]>>>} */
    this.drawn = new Map();
    /** The runs whose charts are large. @type {Set<string>} */
    this.large = new Set();
  }

  /**
   * Run the backtest again, shortly after the last change.
   *
   * @param {Asked} asked
   */
  follow(asked) {
    this.stop();
    this.asked = asked;
    this.timer = setTimeout(() => void this.#ask(asked), PAUSE_MS);
  }

  /**
   * Show why nothing is tested; the runs and series of the scope are still read.
   *
   * @param {string} text
   * @param {Globs} globs
   */
  rest(text, globs) {
    this.stop();
    this.asked = null;
    refill(this.state, text);
    refill(this.numbers);
    refill(this.rows);
    const { signal } = this.turn;
    this.timer = setTimeout(() => void this.#scope(globs, signal).catch(() => {}), PAUSE_MS);
  }

  /**
   * Read the runs and series of a scope, once.
   *
   * @param {Globs} globs
   * @param {AbortSignal} signal
   */
  async #scope(globs, signal) {
    const key = JSON.stringify(globs);
    if (key === this.scoped) return;
    const scope = await this.client.scope(globs, signal);
    if (signal.aborted) return;
    this.scoped = key;
    this.runs.offer(scope.runs);
    this.known(scope);
  }

  stop() {
    clearTimeout(this.timer);
    this.turn.abort();
    this.turn = new AbortController();
  }

  /** @param {Asked} asked */
  async #ask(asked) {
    const turn = this.turn;
    refill(this.state, icon("waiting"), " testing stored runs …");
    try {
      await this.#scope(asked.globs, turn.signal);
      if (turn.signal.aborted) return;
      const { ids } = this.runs;
      if (!ids.length) return this.#none();
      const answer = await this.client.trial({ ...asked.order, runs: ids }, turn.signal);
      if (turn.signal.aborted) return;
      this.complain(null);
      this.#show(answer, asked);
    } catch (error) {
      if (!turn.signal.aborted) this.#fail(error, asked);
    }
  }

  /**
   * @param {unknown} error
   * @param {Asked} asked
   */
  #fail(error, asked) {
    if (error instanceof ApiError && error.status === 429) {
      refill(this.state, icon("waiting"), " waiting for another backtest");
      this.timer = setTimeout(() => void this.#ask(asked), AGAIN_MS);
      return;
    }
    const refused = error instanceof ApiError && error.status === 422;
    const at = this.complain(error);
    refill(
      this.state,
      icon("warning"),
      " ",
      refused
        ? at
          ? "Not tested: see the marked field."
          : sentence(error)
        : /** @type {Error} */ (error).message,
    );
    refill(this.numbers);
    if (!refused) {
      refill(
        this.rows,
        el(
          "p.pad",
          {},
          el("button.btn", { type: "button", onclick: () => void this.#ask(asked) }, "Try again"),
        ),
      );
    }
  }

  #none() {
    refill(this.state, "No runs to test.");
    refill(this.numbers);
    refill(
      this.rows,
      el(
        "p.pad.soft",
        {},
        "No stored run is in scope, or none is chosen. Widen projects, runs or tags, or choose runs above.",
      ),
    );
  }

  /**
   * @param {TrialAnswer} answer
   * @param {Asked} asked
   */
  #show(answer, asked) {
    const { runs, alerts_per_1000_healthy_steps: rates } = answer;
    const firings = runs.flatMap((run) => run.firings);
    const healthy = firings.filter((firing) => firing.healthy).length;
    const real = firings.filter((firing) => firing.incident !== null).length;
    const absent = runs.filter(isAbsent).length;
    const cut = runs.filter((run) => run.cut).length;
    refill(
      this.state,
      dotted(
        counted(runs.length, "stored run"),
        counted(answer.steps, "step"),
        absent ? `series absent in ${int(absent)}` : "",
        cut ? `${counted(cut, "run")} stopped early` : "",
        "updates as you edit",
      ),
    );
    refill(
      this.numbers,
      figure(int(answer.firings), answer.firings === 1 ? "alert" : "alerts", ""),
      figure(int(real), "during incidents", ""),
      figure(int(healthy), "on healthy steps", healthy ? "is-warning" : ""),
      figure(
        rates.info === null ? "–" : short(rates.info, 3),
        "per 1000 healthy steps",
        healthy ? "is-warning" : "",
      ),
    );
    refill(this.rows, ...runs.map((run) => this.#row(run, asked)));
  }

  /**
   * @param {TrialRun} run
   * @param {Asked} asked
   */
  #row(run, asked) {
    const outcome = outcomeOf(run);
    const place = el("div.strip", {}, el("span.micro", {}, "–"));
    const name = run.name || run.run;
    const first = run.firings[0];
    const label = el(
      "div.who",
      {},
      el(
        "a.strong.clip",
        { href: runAddress(run.run, first ? { at: first.step ?? first.onset_step } : {}), title: name },
        name,
      ),
      el(
        "span.micro.clip",
        {},
        [run.project, counted(run.steps, "step"), counted(run.firings.length, "alert")]
          .filter(Boolean)
          .join(" · "),
      ),
    );
    const cell = el(
      "div.outcome",
      {},
      el("span", { class: outcome.tone }, icon(outcome.shape)),
      el(
        "div",
        {},
        el("div", {}, outcome.word),
        el(
          "div.micro",
          {},
          outcome.incident
            ? el("a.link", { href: incidentAddress(outcome.incident) }, run.cut || outcome.text)
            : run.cut || outcome.text,
        ),
      ),
    );
    const row = el(
      "article.trialrow",
      { "aria-label": `${name}: ${outcome.word}`, "data-trial": run.run },
      label,
      place,
      cell,
    );
    void this.#draw(place, run, asked).then((drawn) => label.append(enlarge(row, drawn, this.large)));
    return row;
  }

  /**
   * Draw the strip of a run.
   *
   * @param {HTMLElement} host
   * @param {TrialRun} run
   * @param {Asked} asked
   * @returns {Promise<import("./trialchart.js").Drawn>}
   */
  async #draw(host, run, asked) {
    const names = (run.series ?? []).slice(0, 1);
    const usual = /** @type {[number, number]} */ ([0, Math.max(1, run.steps - 1)]);
    const bare = { run, layers: [], steps: usual, limit: null, name: "" };
    try {
      const layers = (await this.#layers(run.run, names)).get(names[0]) ?? [];
      const drawn = {
        ...bare,
        layers,
        steps: stepsOf(layers) ?? usual,
        limit: asked.limit,
        name: names[0] ?? "",
      };
      refill(host, strip(drawn), el("div.micro.clip", {}, captionOf(run)));
      return drawn;
    } catch {
      refill(host, strip(bare), el("div.micro", {}, "The series could not be loaded."));
      return bare;
    }
  }

  /**
   * Load a run's series once, however often the rule is edited.
   *
   * @param {string} run
   * @param {string[]} names
   */
  #layers(run, names) {
    const key = `${run}\n${names.join("\n")}`;
    const known = this.drawn.get(key);
    if (known) return known;
    const asked = (async () => {
      const set = new SeriesSet();
      if (names.length) {
        set.take(await this.app.api.series(run, names, { from: null, to: null, buckets: BUCKETS }));
      }
      return new Map(
        names.map((name) => [
          name,
          (set.layers.get(name) ?? []).filter((layer, _, all) => layer.rank === all[0].rank),
        ]),
      );
    })();
    asked.catch(() => this.drawn.delete(key));
    this.drawn.set(key, asked);
    return asked;
  }
}

/**
 * @param {string} number
 * @param {string} text
 * @param {string} mark
 */
const figure = (number, text, mark) =>
  el("div.trialfigure", {}, el("div.big", { class: mark }, number), el("span.micro", {}, text));
