/** The backtest of a rule: one strip per stored run with its alarms, and how many were on healthy steps. */

import { el, refill, svg } from "../../browser/dom.js";
import { ApiError } from "../../data/api.js";
import { SeriesSet } from "../../lib/charts/series.js";
import { sentence } from "../../lib/fielderror.js";
import { counted, dotted, int, short } from "../../lib/format.js";
import { incidentAddress, runAddress } from "../../lib/route.js";
import { H, W, isAbsent, outcomeOf, shapeOf, stepsOf, stretchesOf } from "../../lib/rules/rulestrip.js";
import { icon } from "../icons.js";
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
    const { runs, alarms_per_1000_healthy_steps: rates } = answer;
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
      figure(int(answer.firings), "alarms", ""),
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
    const strip = el("div.strip", {}, el("span.micro", {}, "–"));
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
        [run.project, counted(run.steps, "step"), counted(run.firings.length, "alarm")]
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
    void this.#draw(strip, run, asked);
    return el(
      "article.trialrow",
      { "aria-label": `${name}: ${outcome.word}`, "data-trial": run.run },
      label,
      strip,
      cell,
    );
  }

  /**
   * @param {HTMLElement} host
   * @param {TrialRun} run
   * @param {Asked} asked
   */
  async #draw(host, run, asked) {
    const names = (run.series ?? []).slice(0, 1);
    try {
      const layers = (await this.#layers(run.run, names)).get(names[0]) ?? [];
      const steps = stepsOf(layers) ?? [0, Math.max(1, run.steps - 1)];
      refill(
        host,
        strip(run, layers, steps, asked.limit),
        el(
          "div.micro.clip",
          {},
          names[0] ?? (isAbsent(run) ? "series absent" : "no series to draw"),
          run.series && run.series.length > 1 ? ` and ${run.series.length - 1} more` : "",
        ),
      );
    } catch {
      refill(
        host,
        strip(run, [], [0, Math.max(1, run.steps - 1)], null),
        el("div.micro", {}, "The series could not be loaded."),
      );
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

/**
 * @param {TrialRun} run
 * @param {Layer[]} layers
 * @param {[number, number]} steps
 * @param {number | null} limit
 */
function strip(run, layers, steps, limit) {
  const shape = shapeOf(layers, steps, limit);
  const stretches = stretchesOf(run.firings, steps);
  const alarms = stretches.slice(0, 10).map(({ firing: { severity, step, resolved_step: end } }) => {
    return `${severity} from step ${int(step)} to ${end === null ? "the end" : int(end)}`;
  });
  const words = alarms.length ? `${counted(stretches.length, "alarm")}: ${alarms.join("; ")}` : "no alarms";
  const nonFinite = shape.bad ? "; contains non-finite values" : "";
  return svg(
    "svg",
    {
      viewBox: `0 0 ${W} ${H}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Steps ${int(steps[0])} to ${int(steps[1])}, ${words}${nonFinite}`,
    },
    ...stretches.map(({ from, to, firing }) =>
      svg("rect", {
        class: `alarm ${firing.severity}${firing.healthy ? " healthy" : ""}`,
        x: from * W,
        y: 0,
        width: Math.max(1.5, (to - from) * W),
        height: H,
      }),
    ),
    svg("path", { class: "band", d: shape.band }),
    svg("path", { class: "line", d: shape.line }),
    svg("path", { class: "bad", d: shape.bad }),
    shape.limit === null ? null : svg("path", { class: "limit", d: `M0 ${shape.limit}H${W}` }),
    ...stretches.map(({ from, firing }) =>
      svg(
        "path",
        { class: `mark ${firing.severity}`, d: `M${from * W} 0V${H}` },
        svg("title", {}, `step ${int(firing.step)}: ${firing.summary}`),
      ),
    ),
  );
}
