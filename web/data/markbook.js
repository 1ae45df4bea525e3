/**
 * Who has taken which open alert on, and what keeps it from being told. Asked for as a whole: it is short.
 */

/** Changes that come close together are asked for once. */
export const GATHER_MS = 150;

/** @typedef {{ items: AlertMarks[], silences: Silence[] }} MarkAnswer */

export class MarkBook {
  /** @type {Map<string, AlertMarks>} */
  #marks = new Map();
  /** @type {Map<string, Silence>} */
  #silences = new Map();
  /** @type {Set<() => void>} */
  #listeners = new Set();
  /** @type {unknown} */
  #timer = null;
  #turn = 0;
  loaded = false;

  /**
   * @param {{ marks: () => Promise<MarkAnswer> }} api
   * @param {(run: () => void, ms: number) => unknown} later
   */
  constructor(api, later = (run, ms) => setTimeout(run, ms)) {
    this.api = api;
    this.later = later;
  }

  /** Asks the server; an older answer never overwrites a newer one. Raises ApiError. */
  async load() {
    const mine = ++this.#turn;
    const { items, silences } = await this.api.marks();
    if (mine !== this.#turn) return;
    this.#marks = new Map(items.map((item) => [item.id, item]));
    this.#silences = new Map(silences.map((silence) => [silence.id, silence]));
    this.loaded = true;
    this.#tell();
  }

  /** Asks soon; once for all that happens until then. Nobody looks: nothing is asked. */
  stir() {
    if (this.#timer !== null || !this.#listeners.size) return;
    this.#timer = this.later(() => {
      this.#timer = null;
      void this.load().catch(() => {});
    }, GATHER_MS);
  }

  /**
   * What the server answered to an act on one alert: known at once, without asking.
   *
   * @param {AlertMarks} marks
   */
  take(marks) {
    this.#turn++;
    this.#marks.set(marks.id, marks);
    this.#tell();
  }

  /**
   * @param {string} id
   * @returns {AlertMarks}
   */
  of(id) {
    return this.#marks.get(id) ?? { id, ack: null, silenced_by: [], inhibited_by: [] };
  }

  /** @param {string} id */
  silence(id) {
    return this.#silences.get(id) ?? null;
  }

  /**
   * @param {() => void} listener
   * @returns {() => void}
   */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell() {
    for (const listener of this.#listeners) listener();
  }
}
