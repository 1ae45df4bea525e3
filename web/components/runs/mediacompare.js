/**
 * Images, histograms, texts and tables of two or more runs beside each other, at one step.
 *
 * They are loaded when the section is opened.
 */

import { el, refill, say } from "../../browser/dom.js";
import { counted, int } from "../../lib/format.js";
import { runAddress } from "../../lib/route.js";
import { mediaNames, mediaSteps } from "../../lib/runs/mediasteps.js";
import { selectInput } from "../inputs.js";
import { MediaCard } from "./mediacard.js";

/** Runs beside each other. */
const MOST = 4;

/** @typedef {{ id: string, name: string }} Run */

export class MediaCompare {
  /** @type {Run[]} */
  #runs = [];
  /** @type {Map<string, MediaRow[]>} by run */
  #items = new Map();
  /** @type {MediaCard[]} */
  #cards = [];
  /** @type {number[]} */
  #steps = [];
  #key = "";

  /** @param {import("../../data/api.js").Api} api */
  constructor(api) {
    this.api = api;
    this.names = selectInput([], "", { "aria-label": "Name", onchange: () => this.#draw() });
    this.at = el("span.muted");
    this.slider = /** @type {HTMLInputElement} */ (
      el("input", { type: "range", min: "0", "aria-label": "Step", oninput: () => this.#go() })
    );
    this.note = el("p.muted", { role: "status" });
    this.grid = el("div.media");
    this.bar = el("div.bar", { hidden: true }, this.names, this.at, el("label.media-step", {}, this.slider));
    this.node = el(
      "details.card.pad.then.mediacompare",
      { ontoggle: () => void this.#load() },
      el("summary", {}, el("h2", {}, "Media side by side")),
      this.bar,
      this.note,
      this.grid,
    );
  }

  /** @param {Run[]} runs those that are visible */
  show(runs) {
    this.node.hidden = !runs.length;
    this.#runs = runs;
    void this.#load();
  }

  async #load() {
    const runs = this.#runs.slice(0, MOST);
    const key = JSON.stringify(runs);
    if (!(/** @type {HTMLDetailsElement} */ (this.node).open) || key === this.#key) return;
    this.#key = key;
    say(this.note, "–");
    try {
      const lists = await Promise.all(runs.map(({ id }) => this.api.media(id)));
      if (key !== this.#key) return;
      this.#items = new Map(runs.map(({ id }, i) => [id, lists[i].items]));
      this.#choices();
    } catch (error) {
      this.#key = ""; // the next call loads them
      say(this.note, /** @type {Error} */ (error).message);
    }
  }

  #choices() {
    const names = mediaNames([...this.#items.values()]);
    const chosen = this.names.value;
    refill(this.names, ...names.map((name) => el("option", { value: name }, name)));
    if (names.includes(chosen)) this.names.value = chosen;
    this.bar.hidden = !names.length;
    const more =
      this.#runs.length > MOST ? `The first ${MOST} of ${int(this.#runs.length)} visible runs.` : "";
    say(
      this.note,
      names.length ? more : `No images, histograms, texts or tables in ${counted(this.#items.size, "run")}.`,
    );
    this.#draw();
  }

  #draw() {
    const name = this.names.value;
    const all = [...this.#items.values()].map((items) => items.filter((item) => item.name === name));
    this.#steps = mediaSteps(all);
    this.slider.max = String(Math.max(0, this.#steps.length - 1));
    this.slider.value = this.slider.max;
    this.slider.hidden = this.#steps.length < 2;
    this.#cards = [];
    refill(this.grid, ...(name ? [...this.#items.keys()].map((id, i) => this.#column(id, all[i])) : []));
    this.#go();
  }

  /**
   * @param {string} id
   * @param {MediaRow[]} items
   */
  #column(id, items) {
    const run = this.#runs.find((each) => each.id === id)?.name ?? id;
    const head = el("h3", {}, el("a", { href: runAddress(id) }, el("bdi", {}, run)));
    if (!items.length) {
      return el("figure", { "aria-label": run }, head, el("p.muted", {}, `No ${this.names.value}.`));
    }
    const card = new MediaCard(this.names.value, {
      url: (hash) => this.api.mediaUrl(id, hash),
      content: (hash) => this.api.mediaContent(id, hash),
    });
    card.show(items);
    this.#cards.push(card);
    return el(
      "figure",
      { "aria-label": run },
      el("div.bar", {}, head, el("span.grow"), card.step),
      card.figure,
      card.caption,
    );
  }

  /** Show every run at the step of the slider. */
  #go() {
    const step = this.#steps[Number(this.slider.value)];
    if (step === undefined) return;
    say(this.at, `step ${int(step)}`);
    this.slider.setAttribute("aria-valuetext", `step ${int(step)}`);
    for (const card of this.#cards) card.until(step);
  }
}
