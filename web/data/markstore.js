/**
 * Acknowledgements, silences and inhibitions of open alerts. Always loaded as a whole, because the list is
 * short.
 */

/** Changes that come close together cause one request. */
const GATHER_MS = 150;

/** @typedef {{ items: AlertMarks[], silences: Silence[] }} MarkAnswer */

export class MarkStore {
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

  /** Load the marks; an older response never replaces a newer one. Throws ApiError. */
  async load() {
    const mine = ++this.#turn;
    const { items, silences } = await this.api.marks();
    if (mine !== this.#turn) return;
    this.#marks = new Map(items.map((item) => [item.id, item]));
    this.#silences = new Map(silences.map((silence) => [silence.id, silence]));
    this.loaded = true;
    this.#notify();
  }

  /** Load soon, once for all changes until then. A hidden page loads nothing. */
  stir() {
    if (this.#timer !== null || !this.#listeners.size) return;
    this.#timer = this.later(() => {
      this.#timer = null;
      void this.load().catch(() => {});
    }, GATHER_MS);
  }

  /**
   * Apply the server's response to an action on one alert, without another request.
   *
   * @param {AlertMarks} marks
   */
  take(marks) {
    this.#turn++;
    this.#marks.set(marks.id, marks);
    this.#notify();
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

  #notify() {
    for (const listener of this.#listeners) listener();
  }
}
