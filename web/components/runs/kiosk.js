/**
 * Kiosk mode of the fleet, for a screen on a wall: only the runs, larger, without a pointer; on request one
 * project after the other.
 */

import { el, say } from "../../browser/dom.js";
import { following, kept } from "../../lib/views/rotation.js";

/** The pointer and the way out are hidden when the pointer has not moved for this long. */
const IDLE_MS = 3_000;
/** A tap does not move the pointer. */
const STIRS = ["pointermove", "pointerdown"];
/** A long list is read screen by screen; this share of a screen is new each time. */
const SCREEN = 0.85;
/** The page moves by this many pixels from project to project, so that nothing burns into the screen. */
const SHIFT_PX = 2;
const SHIFTS = 4;
const INTERVALS = /** @type {const} */ ([
  [0, "all projects"],
  [15, "next project every 15 s"],
  [30, "next project every 30 s"],
  [60, "next project every minute"],
  [300, "next project every 5 min"],
]);

export class Kiosk {
  #on = false;
  /** Seconds; 0: no rotation. */
  #every = 0;
  /** @type {string | null} the project that is shown */
  #project = null;
  /** @type {string[]} */
  #projects = [];
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #turning;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #still;
  #turns = 0;
  /** Whether the screen was idle when it was tapped: such a tap shows the way out and opens no run. */
  #woken = false;
  /** @type {WakeLockSentinel | null} keeps the screen on */
  #awake = null;

  /**
   * @param {() => void} changed another project is shown
   * @param {(seconds: number) => void} choose
   * @param {() => void} leave
   */
  constructor(changed, choose, leave) {
    this.changed = changed;
    this.heading = el("h1", {}, "Fleet");
    this.chooser = /** @type {HTMLSelectElement} */ (
      el(
        "select",
        { "aria-label": "Rotate projects", onchange: () => choose(Number(this.chooser.value)) },
        ...INTERVALS.map(([seconds, text]) => el("option", { value: String(seconds) }, text)),
      )
    );
    this.out = el(
      "div.leave",
      {},
      this.chooser,
      el("button.btn", { type: "button", onclick: leave }, "Leave kiosk mode ", el("kbd", {}, "Esc")),
    );
    this.moved = (/** @type {Event} */ { type }) => {
      if (type === "pointerdown") this.#woken = document.documentElement.classList.contains("is-idle");
      this.#stir();
    };
    this.clicked = (/** @type {Event} */ event) => {
      if (!this.#woken) return;
      this.#woken = false;
      event.preventDefault();
      event.stopPropagation();
    };
    this.seen = () => void this.#stayAwake();
  }

  /** @param {{ kiosk: boolean, rotate: number }} view */
  look({ kiosk, rotate }) {
    const every = kiosk ? rotate : 0;
    if (kiosk === this.#on && every === this.#every) return;
    this.#stop();
    this.#on = kiosk;
    this.#every = every;
    document.documentElement.classList.toggle("is-kiosk", kiosk);
    this.chooser.value = String(every);
    if (!every) this.#project = null;
    if (!kiosk) return;
    if (every) this.#turning = setInterval(() => this.#turn(), every * 1000);
    for (const kind of STIRS) document.addEventListener(kind, this.moved);
    document.addEventListener("click", this.clicked, true);
    document.addEventListener("visibilitychange", this.seen);
    this.#stir();
    void this.#stayAwake();
  }

  /**
   * Return the runs that are shown now.
   *
   * @param {RunRow[]} rows
   */
  only(rows) {
    if (!this.#every) {
      say(this.heading, "Fleet");
      return rows;
    }
    this.#projects = [...new Set(rows.map((row) => row.project))].sort();
    this.#project = kept(this.#projects, this.#project);
    say(this.heading, this.#project ?? "Fleet");
    return rows.filter((row) => row.project === this.#project);
  }

  close() {
    this.#stop();
    this.#on = false;
    document.documentElement.classList.remove("is-kiosk");
  }

  #stop() {
    clearInterval(this.#turning);
    clearTimeout(this.#still);
    for (const kind of STIRS) document.removeEventListener(kind, this.moved);
    document.removeEventListener("click", this.clicked, true);
    document.removeEventListener("visibilitychange", this.seen);
    document.documentElement.classList.remove("is-idle");
    this.#shift(0);
    void this.#awake?.release();
    this.#awake = null;
  }

  /** Show the next screen of a long list, or the next project. */
  #turn() {
    const page = /** @type {Element} */ (document.scrollingElement);
    if (page.scrollTop + innerHeight < page.scrollHeight - 1) {
      return scrollBy({ top: SCREEN * innerHeight });
    }
    scrollTo({ top: 0 });
    this.#turns += 1;
    this.#shift(SHIFT_PX * (this.#turns % SHIFTS));
    this.#project = following(this.#projects, this.#project);
    this.changed();
  }

  /** @param {number} px */
  #shift(px) {
    document.documentElement.style.setProperty("--kiosk-shift", `${px}px`);
  }

  /** The pointer moved, or the screen was tapped: show the pointer and the way out for a moment. */
  #stir() {
    document.documentElement.classList.remove("is-idle");
    clearTimeout(this.#still);
    this.#still = setTimeout(() => document.documentElement.classList.add("is-idle"), IDLE_MS);
  }

  /** Keep the screen on. Browsers allow it only over HTTPS, and end it when the tab is hidden. */
  async #stayAwake() {
    if (!("wakeLock" in navigator) || document.hidden) return;
    try {
      this.#awake = await navigator.wakeLock.request("screen");
    } catch {
      /* the screen turns off as the system decides */
    }
  }
}
