/**
 * What the socket pushed since a request began. The response may be older, so it must not replace that: an
 * alert that began to fire meanwhile would disappear, and a run that ended would be shown as running.
 */

export class Pushed {
  #count = 0;
  /** @type {Map<string, number>} */
  #last = new Map();

  /** @returns {number} the moment before a request, for `since` */
  now() {
    return this.#count;
  }

  /** @param {string} id changed or removed */
  add(id) {
    this.#last.set(id, ++this.#count);
  }

  /**
   * @param {string} id
   * @param {number} moment
   */
  since(id, moment) {
    return (this.#last.get(id) ?? 0) > moment;
  }
}
