/** The live socket: subscriptions with cursors, reconnects with back-off, and the connection state. */

/** After this long without a frame the page is offline (the server sends a heartbeat every 5 s). */
export const SILENCE_MS = 12_000;
const FIRST_RETRY_MS = 250;
const LONGEST_RETRY_MS = 8_000;
const WATCH_MS = 1_000;

/**
 * Return the wait before retry number `tries` (0 first): doubled each time, with 20 % jitter so that browsers
 * don't reconnect at the same moment.
 *
 * @param {number} tries
 * @param {number} random 0 to 1
 */
export const backoff = (tries, random) =>
  Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** tries) * (0.8 + 0.4 * random);

/**
 * @typedef {{ view: string, run?: string, names?: string[] }} View
 * @typedef {{ message: (frame: any) => void, cursor?: () => number | string | null, reconnected?: () =>
 *   void }} Handlers
 * @typedef {{ online: boolean, received_ms: number | null, retry_ms: number | null, lag_ms: number | null,
 *   refused: boolean }} LiveState
 * @typedef {{ open: () => WebSocket, now: () => number, later: (run: () => void, ms: number) => unknown,
 *   cancel: (timer: any) => void, random: () => number }} World the environment, replaced in tests
 */

export class Live {
  /** @type {Map<number, { view: View, handlers: Handlers }>} */
  #subscriptions = new Map();
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {Set<(frame: any) => void>} */
  #alertListeners = new Set();
  /** @type {Set<(state: LiveState) => void>} */
  #stateListeners = new Set();
  /** @type {Set<(beat: any) => void>} */
  #beatListeners = new Set();
  /** @type {Set<() => void>} */
  #reconnectListeners = new Set();
  /** @type {Map<string, Set<(frame: any) => void>>} */
  #wordListeners = new Map();
  #next = 1;
  #tries = 0;
  #opened = 0;
  #greeted = false;
  #closed = false;
  /** @type {string | null} */
  #failing = null;
  /** @type {unknown} */
  #retry = null;

  /** @param {World} world */
  constructor(world) {
    this.world = world;
    /** @type {LiveState} */
    this.state = { online: false, received_ms: null, retry_ms: null, lag_ms: null, refused: false };
  }

  start() {
    this.#connect();
    this.#watch();
  }

  /** Stop for good. */
  stop() {
    this.#closed = true;
    this.world.cancel(this.#retry);
    this.#socket?.close();
  }

  /**
   * @param {View} view
   * @param {Handlers} handlers
   * @returns {() => void} ends the subscription
   */
  subscribe(view, handlers) {
    const id = this.#next++;
    this.#subscriptions.set(id, { view, handlers });
    this.#ask(id);
    return () => {
      if (this.#subscriptions.delete(id)) this.#send({ type: "unsubscribe", id });
    };
  }

  /** @param {(alert: Alert) => void} listener */
  onAlert(listener) {
    this.#alertListeners.add(listener);
  }

  /**
   * @param {(beat: { now_ms: number, backlog_bytes: number, lag_ms: number, failing: string | null }) =>
   *   void} listener failing: the database's error message while records cannot be stored
   */
  onBeat(listener) {
    this.#beatListeners.add(listener);
  }

  /**
   * @param {"changed" | "deliveries" | "notification"} type type of a message that is sent to every page
   * @param {(frame: any) => void} listener
   * @returns {() => void}
   */
  onMessage(type, listener) {
    const listeners = this.#wordListeners.get(type) ?? new Set();
    this.#wordListeners.set(type, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /**
   * @param {() => void} listener called when the socket or the database works again, to request what was
   *   missed
   * @returns {() => void}
   */
  onReconnect(listener) {
    this.#reconnectListeners.add(listener);
    return () => this.#reconnectListeners.delete(listener);
  }

  /**
   * @param {(state: LiveState) => void} listener called immediately and on each change
   * @returns {() => void}
   */
  onState(listener) {
    this.#stateListeners.add(listener);
    listener(this.state);
    return () => this.#stateListeners.delete(listener);
  }

  /** Reconnect now instead of after the wait: the network is back, or the user asked for it. */
  hurry() {
    if (this.#socket || this.#closed) return;
    this.world.cancel(this.#retry);
    this.#connect();
  }

  #connect() {
    if (this.#closed) return;
    const socket = this.world.open();
    this.#socket = socket;
    socket.onopen = () => this.#greet(socket);
    socket.onmessage = (event) => this.#receive(socket, event.data);
    socket.onclose = (event) => this.#lose(socket, event.code);
  }

  /** @param {WebSocket} socket */
  #greet(socket) {
    if (socket !== this.#socket) return;
    this.#greeted = false;
    this.#say({ online: !this.state.refused, received_ms: this.world.now(), retry_ms: null });
    for (const id of this.#subscriptions.keys()) this.#ask(id);
  }

  /** The first message: only now has the server accepted the login. */
  #welcomed() {
    const lost = this.#opened++ > 0 || this.#tries > 0; // also before the first message
    this.#greeted = true;
    this.#tries = 0;
    if (lost) this.#back();
  }

  /** Repeat requests, because those made during the outage may have failed. */
  #back() {
    for (const { handlers } of this.#subscriptions.values()) handlers.reconnected?.();
    for (const listener of this.#reconnectListeners) listener();
  }

  /** @param {string | null} failing the database's error message while it is unavailable */
  #database(failing) {
    const was = this.#failing;
    this.#failing = failing;
    if (was && !failing) this.#back();
  }

  /**
   * @param {WebSocket} socket
   * @param {string} text
   */
  #receive(socket, text) {
    if (socket !== this.#socket) return;
    const frame = JSON.parse(text);
    this.#say({
      online: true,
      received_ms: this.world.now(),
      retry_ms: null,
      refused: false,
      ...(frame.type === "heartbeat" ? { lag_ms: frame.lag_ms ?? null } : {}),
    });
    if (!this.#greeted) this.#welcomed();
    if (frame.type === "heartbeat") {
      for (const listener of this.#beatListeners) listener(frame);
      this.#database(frame.failing ?? null);
    } else if (frame.type === "alert") for (const listener of this.#alertListeners) listener(frame.alert);
    else if (this.#wordListeners.has(frame.type)) {
      for (const listener of this.#wordListeners.get(frame.type) ?? []) listener(frame);
    } else this.#subscriptions.get(frame.id)?.handlers.message(frame);
  }

  /**
   * @param {WebSocket} socket
   * @param {number} code 4401 and 1008: the server rejected this browser's login
   */
  #lose(socket, code) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    if (this.#closed) return;
    const wait = backoff(this.#tries++, this.world.random());
    // The first lost connection is not reported. The page is offline only if the quick retry fails too.
    const first = this.#tries === 1 && this.state.online;
    this.#say({ online: first, retry_ms: this.world.now() + wait, refused: code === 4401 || code === 1008 });
    this.#retry = this.world.later(() => this.#connect(), wait);
  }

  /** A socket that is open but silent is dead (a sleeping laptop, a cut cable). */
  #watch() {
    if (this.#closed) return;
    this.world.later(() => {
      this.#checkSilence();
      this.#watch();
    }, WATCH_MS);
  }

  #checkSilence() {
    const { received_ms } = this.state;
    if (!this.#socket || received_ms === null || this.world.now() - received_ms < SILENCE_MS) return;
    const dead = this.#socket;
    dead.onclose = null;
    dead.close();
    this.state = { ...this.state, online: false };
    this.#lose(dead, 1006);
  }

  /** @param {number} id */
  #ask(id) {
    const subscription = this.#subscriptions.get(id);
    if (!subscription) return;
    const cursor = subscription.handlers.cursor?.();
    this.#send({
      type: "subscribe",
      id,
      ...subscription.view,
      ...(cursor === null || cursor === undefined ? {} : { cursor }),
    });
  }

  /** @param {object} frame */
  #send(frame) {
    if (this.#socket?.readyState === 1) this.#socket.send(JSON.stringify(frame));
  }

  /** @param {Partial<LiveState>} change */
  #say(change) {
    this.state = { ...this.state, ...change };
    for (const listener of this.#stateListeners) listener(this.state);
  }
}
