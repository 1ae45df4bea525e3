/**
 * Work that takes turns: so many at once, in the order asked for. A page with a thousand questions leaves the
 * browser's few connections free for the others.
 */

export class Lane {
  #running = 0;
  /** @type {(() => void)[]} */
  #waiting = [];

  /** @param {number} width at once */
  constructor(width) {
    this.width = width;
  }

  /** Whether work waits for its turn. */
  get busy() {
    return this.#waiting.length > 0;
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>} its answer, or its error
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
