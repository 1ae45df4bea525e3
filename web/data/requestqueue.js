/**
 * A queue that limits how many requests run at once, in order of arrival. Browsers open only a few
 * connections per server, and other requests need some of them.
 */

export class Lane {
  #running = 0;
  /** @type {(() => void)[]} */
  #waiting = [];

  /** @param {number} width requests at once */
  constructor(width) {
    this.width = width;
  }

  /** Whether requests are waiting. */
  get busy() {
    return this.#waiting.length > 0;
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>} its result, or its error
   */
  async run(work) {
    if (this.#running >= this.width) await new Promise((done) => this.#waiting.push(() => done(null)));
    else this.#running++;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }
}
