/**
 * Gradient norms by layer, around an alert or in the chosen window.
 *
 * Data: its page asks data/api.js for one window at a time. Draws: layerheat.js, loaded for a run that has
 * any.
 */

import { el } from "../browser/dom.js";

/** Steps before the onset and after an alert fired. */
const AROUND = { before: 400, after: 200 };

/** @typedef {import("../lib/charts/heat.js").LayersAnswer} LayersAnswer */

export class Layers {
  /** Where the heat map will be. */
  node = el("div", { hidden: true });
  /** @type {import("./layerheat.js").LayerHeat | null} */
  heat = null;
  #asked = "";
  #series = "";
  /**
   * Step at which the chosen alert began.
   *
   * @type {number | null}
   */
  #onset = null;
  #closed = false;

  /**
   * @param {{ ask: (window: StepWindow, series: string) => Promise<LayersAnswer>, go: (step: number) => void
   *   }} source
   */
  constructor(source) {
    this.source = source;
  }

  /**
   * Show the window, or the steps around an alert; request them only if they changed, or if `again` is set.
   *
   * @param {Alert | null} alert
   * @param {StepWindow} window the zoomed window; null for the whole run
   * @param {boolean} again
   */
  async look(alert, window, again = false) {
    const steps = around(alert, window);
    this.#onset = alert?.onset_step ?? null;
    const key = JSON.stringify([steps, this.#series]);
    if (key === this.#asked && !again) return this.draw();
    this.#asked = key;
    this.again = () => this.look(alert, window, true);
    try {
      const answer = await this.source.ask(steps, this.#series);
      if (answer.steps.length) await this.#load();
      if (this.#asked === key) this.heat?.show(answer, this.#onset);
    } catch (error) {
      this.heat?.failed(/** @type {Error} */ (error));
    }
  }

  draw() {
    this.heat?.draw(this.#onset);
  }

  async #load() {
    const { LayerHeat } = await import("./layerheat.js");
    if (this.heat || this.#closed) return;
    const chose = (/** @type {string} */ series) => {
      this.#series = series;
      void this.again?.();
    };
    this.heat = new LayerHeat({ chose, go: this.source.go });
    this.node.replaceWith(this.heat.node);
  }

  close() {
    this.#closed = true;
    this.heat?.close();
  }
}

/**
 * @param {Alert | null} alert
 * @param {StepWindow} window
 * @returns {StepWindow}
 */
function around(alert, window) {
  if (window.from !== null || !alert || alert.onset_step === null) return window;
  return {
    from: Math.max(0, alert.onset_step - AROUND.before),
    to: Math.max(alert.onset_step, alert.fired_step ?? 0) + AROUND.after,
  };
}
