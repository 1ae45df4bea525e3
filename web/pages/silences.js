/**
 * Silences: what is silenced, by whom, why and until when.
 *
 * Data: data/alertingapi.js; data/markstore.js counts the open alerts that each one silences. State: the
 * address (the filter). View: one row per silence (#row); components/alerts/silenceform.js edits one.
 */

import { el, focusIn, refill, say } from "../browser/dom.js";
import { isShortcut } from "../browser/shortcuts.js";
import { blankSilence, silenceForm } from "../components/alerts/silenceform.js";
import { subnav } from "../components/alerts/subnav.js";
import { segments } from "../components/filterbar.js";
import { failed, scopeNote } from "../components/form.js";
import { icon } from "../components/icons.js";
import { showUndo } from "../components/undo.js";
import { clock as clockTime, counted, dotted, int, moment, span } from "../lib/format.js";

const STATES = /** @type {const} */ ([
  ["now", "Active and pending"],
  ["expired", "Expired"],
  ["all", "All"],
]);
const SHAPES = { active: "mute", pending: "waiting", expired: "check" };
const EVERY_MS = 15_000;

class Silences {
  /** @type {Silence[]} */
  #items = [];
  /** @type {Map<string, number>} how many open alerts each silences */
  #matching = new Map();
  #loaded = false;
  #key = "";

  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.count = el("span.muted", {}, "–");
    this.states = segments("Which silences", STATES, (state) => this.#go(state));
    this.list = el("section.card.listing", { "aria-label": "Silences" });
    this.key = (/** @type {KeyboardEvent} */ event) => this.#press(event);
  }

  open() {
    this.app.title("Silences");
    refill(
      this.main,
      subnav(),
      el(
        "div.pagehead",
        {},
        el("h1", {}, "Silences"),
        this.count,
        el("span.grow"),
        el(
          "button.btn.primary",
          { type: "button", onclick: () => this.#new() },
          icon("plus"),
          "New silence ",
          el("kbd.wide-only", {}, "N"),
        ),
      ),
      scopeNote(this.app, "write"),
      el("div.bar", {}, this.states.node),
      this.list,
    );
    document.addEventListener("keydown", this.key);
    this.stops = [
      this.app.live.onMessage("changed", ({ what }) => {
        if (what === "silences") void this.load();
      }),
      this.app.live.onReconnect(() => void this.load()),
      this.app.marks.onChange(() => this.#draw()),
    ];
    this.ticker = setInterval(() => {
      if (!document.hidden) void this.load();
    }, EVERY_MS);
    this.app.marks.stir();
    this.#draw();
    void this.load();
    const asked = new URLSearchParams(location.search);
    if (asked.has("new")) {
      history.replaceState(null, "", location.pathname);
      this.#new(asked.getAll("matcher"));
    }
  }

  close() {
    for (const stop of this.stops ?? []) stop();
    clearInterval(this.ticker);
    document.removeEventListener("keydown", this.key);
  }

  moved() {
    this.#draw();
    return true;
  }

  get state() {
    const asked = new URLSearchParams(location.search).get("state");
    return STATES.find(([key]) => key === asked)?.[0] ?? "now";
  }

  /** @param {string} state */
  #go(state) {
    history.replaceState(null, "", `${location.pathname}${state === "now" ? "" : `?state=${state}`}`);
    this.#draw();
  }

  async load() {
    try {
      this.#items = (await this.app.alerting.silences()).items;
      this.#loaded = true;
      this.#draw();
    } catch (error) {
      if (!this.#loaded) failed(this.list, error, () => void this.load());
    }
  }

  /**
   * Return the state of a silence by the clock, without a request.
   *
   * @param {Silence} silence
   * @returns {Silence["state"]}
   */
  #stateOf({ starts_ms, ends_ms }) {
    const now = this.app.clock.now();
    return now < starts_ms ? "pending" : now < ends_ms ? "active" : "expired";
  }

  #draw() {
    const states = this.#items.map((silence) => this.#stateOf(silence));
    const expired = states.filter((state) => state === "expired").length;
    this.states.show(this.state, { now: states.length - expired, expired, all: states.length });
    if (!this.#loaded) return;
    const count = (/** @type {string} */ wanted) =>
      `${int(states.filter((state) => state === wanted).length)} ${wanted}`;
    say(this.count, dotted(count("active"), count("pending")));
    this.#matching = new Map();
    for (const alert of this.app.alerts.all()) {
      for (const id of this.app.marks.of(alert.id).silenced_by) {
        this.#matching.set(id, (this.#matching.get(id) ?? 0) + 1);
      }
    }
    const shown = this.#items.filter(
      (_, i) => this.state === "all" || (states[i] === "expired") === (this.state === "expired"),
    );
    const key = JSON.stringify([
      this.state,
      shown.map((each) => [each, this.#stateOf(each), this.#matching.get(each.id)]),
      Math.floor(this.app.clock.now() / 60_000),
    ]);
    if (key === this.#key) return;
    this.#key = key;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.focus;
    refill(this.list, ...(shown.length ? shown.map((each) => this.#row(each)) : [this.#empty()]));
    if (focused) focusIn(this.list, `[data-focus="${focused}"]`);
  }

  #empty() {
    return el(
      "div.pad",
      {},
      el("p.soft", {}, this.state === "expired" ? "No silence expired in the last 90 days." : "No silences"),
      el(
        "p.soft.then",
        {},
        "A silence suppresses notifications for matching alerts, for example during maintenance. " +
          "In the inbox, S silences the chosen alert.",
      ),
    );
  }

  /** @param {Silence} silence */
  #row(silence) {
    const { id, matchers, author, reason, starts_ms, ends_ms, problem } = silence;
    const state = this.#stateOf(silence);
    const now = this.app.clock.now();
    const matching = this.#matching.get(id) ?? 0;
    const left =
      state === "active"
        ? `${span((ends_ms - now) / 1000)} left`
        : state === "pending"
          ? `in ${span((starts_ms - now) / 1000)}`
          : `ended ${clockTime(ends_ms)}`;
    return el(
      "article.sil",
      { class: state === "expired" ? "done" : "", "data-silence": id, "aria-label": `Silence: ${reason}` },
      el("span.shape", {}, icon(SHAPES[state], state)),
      el(
        "div.what",
        {},
        el(
          "h2.row",
          {},
          el("span", {}, reason),
          matching ? el("span.chip", {}, counted(matching, "open alert")) : null,
        ),
        el("p.matchers", {}, ...matchers.map((matcher) => el("code.chip", {}, matcher))),
        problem ? el("p.is-critical", {}, icon("warning"), ` Ignored: ${problem}`) : null,
        el("p.micro", {}, `by ${author} · ${moment(starts_ms)} to ${moment(ends_ms)}`),
      ),
      el(
        "div.when",
        { title: moment(state === "pending" ? starts_ms : ends_ms) },
        el("div", {}, state),
        el("div.micro", {}, left),
      ),
      el(
        "div.rowacts",
        {},
        el(
          "button.btn",
          { type: "button", "data-focus": `edit-${id}`, onclick: () => this.#edit(silence) },
          state === "expired" ? "Reuse" : "Edit",
        ),
        state === "expired"
          ? null
          : el(
              "button.btn",
              { type: "button", "data-focus": `end-${id}`, onclick: () => void this.#end(silence) },
              "Expire",
            ),
      ),
    );
  }

  /** @param {string[]} matchers */
  #new(matchers = []) {
    silenceForm(this.app, { ...blankSilence(), matchers }, (silence) => {
      showUndo(`Silenced: ${silence.reason}`, () => void this.#end(silence));
      void this.load();
    });
  }

  /**
   * An expired silence is recreated, starting now.
   *
   * @param {Silence} silence
   */
  #edit(silence) {
    const over = this.#stateOf(silence) === "expired";
    const lasted = silence.ends_ms - silence.starts_ms;
    silenceForm(
      this.app,
      {
        id: over ? null : silence.id,
        matchers: silence.matchers,
        starts_ms: over ? null : silence.starts_ms,
        ends_ms: over ? this.app.clock.now() + lasted : silence.ends_ms,
        reason: silence.reason,
        about: null,
      },
      () => void this.load(),
    );
  }

  /** @param {Silence} silence */
  async #end(silence) {
    const { id, matchers, starts_ms, ends_ms, reason } = silence;
    try {
      await this.app.alerting.endSilence(id);
      showUndo(
        `Ended: ${reason}`,
        () =>
          void this.app.alerting.putSilence({ matchers, starts_ms, ends_ms, reason }, id).then(
            () => this.load(),
            (error) => showUndo(`Not restored: ${error.message}`, null),
          ),
      );
    } catch (error) {
      showUndo(`Not ended: ${/** @type {Error} */ (error).message}`, null);
    }
    this.app.marks.stir();
    void this.load();
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    if (event.key !== "n" || !isShortcut(event)) return;
    event.preventDefault();
    this.#new();
  }
}

/** @type {OpenPage} */
export function silencesPage(app, main) {
  const page = new Silences(app, main);
  page.open();
  return page;
}
