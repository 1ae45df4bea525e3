/** The server's clock as this browser knows it: ages are counted by the clock that made the times. */

export class Clock {
  #offset_ms = 0;

  /** @param {() => number} now */
  constructor(now = Date.now) {
    this.local = now;
  }

  /** @param {unknown} server_ms what the server said its time is, just now */
  hear(server_ms) {
    if (typeof server_ms === "number" && server_ms > 0) this.#offset_ms = server_ms - this.local();
  }

  now() {
    return this.local() + this.#offset_ms;
  }
}
