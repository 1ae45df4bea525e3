/** The server's clock as seen by this browser: ages are computed with the clock that made the times. */

export class Clock {
  #offset_ms = 0;

  /** @param {() => number} now */
  constructor(now = Date.now) {
    this.local = now;
  }

  /** @param {unknown} server_ms the server's current time */
  receive(server_ms) {
    if (typeof server_ms === "number" && server_ms > 0) this.#offset_ms = server_ms - this.local();
  }

  now() {
    return this.local() + this.#offset_ms;
  }
}
