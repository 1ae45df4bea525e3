/** The log tab: what the script wrote to its terminal, newest at the bottom, with the step of each line. */

import { el, refill, say } from "../../browser/dom.js";
import { clock, counted, int, moment } from "../../lib/format.js";
import { headOf, joinedLines, lineAt, MOST_LINES } from "../../lib/runs/consolelines.js";

/** After the last key in the filter. */
const PAUSE_MS = 300;
/** Closer to the bottom than this, new lines scroll the list. */
const NEAR_PX = 40;

/** @typedef {{ before?: number | null, after?: number | null, contains?: string }} Asked */

export class ConsoleLog {
  /** @type {ConsoleLine[]} */
  #lines = [];
  /** @type {number | null} */
  #older = null;
  #newer = 0;
  #loaded = false;
  #serial = 0;
  /** @type {number | null} the step of the cross line */
  #step = null;

  /**
   * @param {(asked: Asked) => Promise<ConsoleAnswer>} ask
   * @param {(step: number) => void} go moves the charts to a step
   */
  constructor(ask, go) {
    this.ask = ask;
    this.go = go;
    this.find = /** @type {HTMLInputElement} */ (
      el("input.plain", {
        type: "search",
        placeholder: "text",
        maxlength: 200,
        "aria-label": "Filter the log",
        oninput: () => this.#typed(),
      })
    );
    this.count = el("span.muted", { role: "status" });
    this.more = el(
      "button.btn",
      { type: "button", hidden: true, onclick: () => void this.#before() },
      "Older lines",
    );
    this.list = el("ol.console", { tabindex: "0", role: "log", "aria-label": "Log" });
    this.node = el("div", {}, el("div.bar", {}, this.find, this.more, this.count), this.list);
  }

  /** Load the newest lines, or those that are new. */
  async load() {
    const serial = ++this.#serial;
    const after = this.#loaded && this.#lines.length < MOST_LINES ? this.#newer : null;
    try {
      const { items, older, newer } = await this.ask({ after, contains: this.find.value });
      if (serial !== this.#serial) return;
      this.#newer = Math.max(this.#newer, newer);
      if (after !== null && !items.length) return;
      if (after === null) this.#older = older;
      this.#lines = after === null ? items : joinedLines(this.#lines, items);
      this.#loaded = true;
      this.#draw(this.#isAtEnd());
    } catch (error) {
      if (serial === this.#serial) say(this.count, /** @type {Error} */ (error).message);
    }
  }

  async #before() {
    const serial = ++this.#serial;
    try {
      const answer = await this.ask({ before: this.#older, contains: this.find.value });
      if (serial !== this.#serial) return;
      this.#older = answer.older;
      this.#lines = [...answer.items, ...this.#lines];
      const height = this.list.scrollHeight;
      this.#draw(false);
      this.list.scrollTop += this.list.scrollHeight - height;
    } catch (error) {
      if (serial === this.#serial) say(this.count, /** @type {Error} */ (error).message);
    }
  }

  #typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.#loaded = false;
      void this.load();
    }, PAUSE_MS);
  }

  /**
   * Mark the line of a step, and scroll to it.
   *
   * @param {number | null} step
   */
  mark(step) {
    if (step === this.#step) return;
    this.#step = step;
    this.#mark();
  }

  #mark() {
    for (const row of this.list.querySelectorAll("[aria-current]")) row.removeAttribute("aria-current");
    const i = this.#step === null ? -1 : lineAt(this.#lines, this.#step);
    const row = i < 0 ? null : this.list.querySelector(`[data-line="${CSS.escape(this.#lines[i].id)}"]`);
    if (!(row instanceof HTMLElement)) return;
    row.setAttribute("aria-current", "step");
    this.list.scrollTop = row.offsetTop - this.list.offsetTop - this.list.clientHeight / 2;
  }

  #isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.list;
    return scrollHeight - scrollTop - clientHeight < NEAR_PX;
  }

  /** @param {boolean} toEnd */
  #draw(toEnd) {
    const lines = this.#lines;
    this.more.hidden = this.#older === null;
    say(this.count, lines.length ? counted(lines.length, "line") : "");
    this.list.hidden = !lines.length;
    if (!lines.length) {
      say(
        this.count,
        this.find.value
          ? "No line has this text."
          : "No output yet. The hook records what the script prints.",
      );
    }
    refill(this.list, ...lines.flatMap((line, i) => this.#rows(line, lines[i - 1])));
    if (this.#step !== null) this.#mark();
    else if (toEnd) this.list.scrollTop = this.list.scrollHeight;
  }

  /**
   * @param {ConsoleLine} line
   * @param {ConsoleLine | undefined} before
   */
  #rows(line, before) {
    const { dropped, attempt } = headOf(line, before);
    return [
      attempt === null ? null : el("li.soft", {}, `Attempt ${int(attempt)}`),
      dropped ? el("li.soft", {}, `${counted(dropped, "line")} left out`) : null,
      this.#row(line),
    ].filter((row) => row !== null);
  }

  /** @param {ConsoleLine} line */
  #row({ id, step, time_ms, stream, rank, text }) {
    const where =
      step === null
        ? el("span.at")
        : el(
            "button.linkish.at",
            { type: "button", title: "Show this step in the charts", onclick: () => this.go(step) },
            int(step),
          );
    return el(
      `li.${stream}`,
      { "data-line": id },
      el("time.muted.wide-only", { title: moment(time_ms) }, clock(time_ms)),
      where,
      rank ? el("span.tag", {}, `rank ${int(rank)}`) : null,
      stream === "err" ? el("span.tag", {}, "stderr") : null,
      el("bdi", {}, text),
    );
  }
}
