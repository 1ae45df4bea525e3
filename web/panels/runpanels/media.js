/**
 * An image, histogram, text or table that the script logs, as a panel with a slider over its steps.
 *
 * Data: the run's media, which the page loads. Draws: components/runs/mediacard.js.
 */

import { el, say } from "../../browser/dom.js";
import { MediaCard } from "../../components/runs/mediacard.js";
import { customOf } from "../../lib/charts/customchart.js";

/**
 * @typedef {import("../../components/runs/mediacard.js").Contents & { ask: () => Promise<MediaAnswer> }}
 *   MediaSource
 */

const KINDS = /** @type {const} */ ([
  ["auto", "Linear"],
  ["log", "Log"],
]);
/** The list is loaded again at most this often. */
const REST_MS = 10_000;

export class MediaPanel {
  free = /** @type {const} */ (true);
  /** @type {string[]} */
  names = [];
  #loaded = -Infinity;

  /**
   * @param {string} name
   * @param {import("./index.js").Frame} frame
   */
  constructor(name, frame) {
    const own = customOf(name)?.text.trim() ?? "";
    this.own = own;
    this.media = frame.media;
    this.kind = { name, title: own };
    this.card = new MediaCard(own, frame.media);
    this.problem = el("p.soft", { role: "status", hidden: true });
    this.node = el(
      "section.card.panel.freepanel.media",
      { "aria-label": own, "data-series": name },
      el(
        "div.panelhead",
        {},
        frame.grip,
        el("h3", { title: own }, el("bdi", {}, own)),
        el("span.grow"),
        this.card.step,
        frame.menuOf(this),
      ),
      el("div.pad", {}, this.problem, this.card.figure, this.card.caption, this.card.slider),
    );
  }

  close() {}

  offer() {}

  /**
   * @param {(name: string) => Layer[]} _
   * @param {Record<string, string>} kinds of axes, by name
   */
  draw(_, kinds) {
    this.card.countsBy(kinds[this.kind.name] === "log");
    void this.#load();
  }

  async #load() {
    if (performance.now() < this.#loaded + REST_MS) return;
    this.#loaded = performance.now();
    try {
      const { items } = await this.media.ask();
      const found = items.filter((item) => item.name === this.own);
      if (found.length) this.card.show(found);
      this.#explain(found.length ? "" : `This run has no image, histogram, text or table “${this.own}”.`);
    } catch (error) {
      this.#explain(/** @type {Error} */ (error).message);
    }
  }

  /** @param {string} text */
  #explain(text) {
    this.problem.hidden = !text;
    this.card.slider.hidden ||= Boolean(text);
    say(this.problem, text);
  }

  showAt() {}

  isEmpty() {
    return !this.card.items.length;
  }

  values() {
    return null;
  }

  /** @returns {import("./index.js").FreeAxis[]} that of the counts of a histogram */
  axes() {
    const { name } = this.kind;
    const isHistogram = this.card.items.some(({ type }) => type === "histogram");
    return isHistogram ? [{ head: "Count axis", axis: "y", name, log: this.card.log, kinds: KINDS }] : [];
  }
}
