/** The media tab: images, histograms, texts and tables by name, each with a slider over its steps. */

import { el, refill } from "../../browser/dom.js";
import { counted } from "../../lib/format.js";
import { MediaCard } from "./mediacard.js";

/** The most names that are shown. */
const MOST = 48;

/**
 * @typedef {import("./mediacard.js").Contents & { ask: () => Promise<MediaAnswer> }} Source
 */

export class MediaList {
  node = el("div.then", {}, el("p.muted", {}, "–"));
  #serial = 0;
  #key = "";
  /** @type {Map<string, MediaCard>} */
  #cards = new Map();

  /** @param {Source} source */
  constructor(source) {
    this.source = source;
  }

  /** Load the list. Of several requests, the newest one is shown. */
  async load() {
    const own = ++this.#serial;
    try {
      const answer = await this.source.ask();
      if (own === this.#serial) this.#show(answer);
    } catch (error) {
      if (own === this.#serial && !this.#cards.size) {
        refill(this.node, el("p.failure", { role: "status" }, /** @type {Error} */ (error).message));
      }
    }
  }

  /** @param {MediaAnswer} answer */
  #show({ items, names }) {
    const key = `${items.length}:${items.at(-1)?.id}`;
    if (key === this.#key) return;
    this.#key = key;
    if (!items.length) {
      const own = el("code", {}, 'run.log({"sample": tocsin.Image(pixels)})');
      refill(
        this.node,
        el("p.muted", {}, "No images, histograms, texts or tables yet. Log them with ", own, "."),
      );
      return;
    }
    const shown = names.slice(0, MOST);
    for (const name of shown) {
      const card = this.#cards.get(name) ?? new MediaCard(name, this.source);
      this.#cards.set(name, card);
      card.show(items.filter((item) => item.name === name));
    }
    const left = names.length - shown.length;
    refill(
      this.node,
      el("div.media", {}, ...shown.map((name) => /** @type {MediaCard} */ (this.#cards.get(name)).node)),
      left > 0 ? el("p.muted", {}, `${counted(left, "further name")} not shown.`) : null,
    );
  }
}
