/**
 * Runs one request at a time. If the text changes meanwhile, only the newest text is requested afterwards.
 */

/** @template T */
export class Latest {
  /** @type {string | null} the text that is shown or being requested */
  #asked = null;
  /** @type {string | null} */
  #next = null;
  #busy = false;

  /**
   * @param {(text: string) => Promise<T>} ask
   * @param {(answer: T) => void} show
   * @param {(text: string) => void} fail called instead of `show`
   */
  constructor(ask, show, fail) {
    this.ask = ask;
    this.show = show;
    this.fail = fail;
  }

  /**
   * @param {string} text ignored if it is already shown
   * @returns {Promise<void>} resolves when no request is left
   */
  async want(text) {
    this.#next = text === this.#asked ? null : text;
    if (this.#busy) return;
    this.#busy = true;
    while (this.#next !== null) {
      const now = this.#next;
      [this.#asked, this.#next] = [now, null];
      try {
        this.show(await this.ask(now));
      } catch {
        this.#asked = null;
        this.fail(now);
      }
    }
    this.#busy = false;
  }
}
