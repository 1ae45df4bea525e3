/**
 * Parallel coordinates of the settings that differ and a metric. Ranges of an axis select runs: drag along
 * the axis, or move its two handles with the arrow keys.
 */

import { el, refill, say, sizeObserver, svg } from "../../browser/dom.js";
import { ABOVE, axesOf, BELOW, nearness, nextPlace, within } from "../../lib/charts/parallel.js";
import { factorsOf } from "../../lib/charts/sweep.js";
import { int } from "../../lib/format.js";

/**
 * @typedef {import("../../lib/charts/parallel.js").Axis} Axis
 * @typedef {import("../../lib/charts/sweep.js").Outcome} Outcome
 */

/** As many settings as have an axis, the most important first. */
const MOST_AXES = 11;
const HEIGHT = 320;
const TOP = 64;
const BOTTOM = 40;
const SIDE = 64;
/** Pixels between two axes. */
const LEAST_GAP = 96;
/** Letters of a name that fit between two axes. */
const LETTERS = 14;
/** A shorter drag is a click, which ends the selection of an axis. */
const CLICK_PX = 4;

/** @param {number} place */
const down = (place) => TOP + (1 - place) * (HEIGHT - TOP - BOTTOM);
/** @param {number} y */
const placeAt = (y) => Math.max(BELOW, Math.min(ABOVE, 1 - (y - TOP) / (HEIGHT - TOP - BOTTOM)));
/** @param {string} text */
const cut = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

export class Parallel {
  /** @type {Axis[]} */
  #axes = [];
  /** @type {Outcome[]} */
  #runs = [];
  /** @type {Map<string, [number, number]>} */
  #brushes = new Map();
  /** @type {Map<string, Element>} */
  #lines = new Map();
  #lit = "";
  #width = 0;
  #goal = /** @type {import("../../lib/charts/sweep.js").Goal} */ ("last");

  /** @param {{ only: (ids: string[]) => void, point: (id: string | null) => void }} acts only: hide others */
  constructor(acts) {
    this.acts = acts;
    this.count = el("span", { role: "status" });
    this.only = el(
      "button.btn",
      { type: "button", onclick: () => acts.only(this.#selected().map((run) => run.id)) },
      "Show only these",
    );
    this.none = el("button.btn", { type: "button", onclick: () => this.#clear() }, "Clear selection");
    this.plot = el("div.scroll", {
      tabindex: "0",
      role: "region",
      "aria-label": "Settings and metric of each run as parallel coordinates",
    });
    this.node = el(
      "div.parallel",
      {},
      this.plot,
      el("div.bar", {}, this.count, el("span.grow"), this.only, this.none),
    );
    this.sizes = sizeObserver(([{ contentRect }]) => {
      if (Math.round(contentRect.width) !== this.#width) this.#draw(Math.round(contentRect.width));
    });
    this.sizes.observe(this.plot);
    const under = (/** @type {Event} */ event) =>
      acts.point(/** @type {Element} */ (event.target).getAttribute("data-run"));
    this.plot.addEventListener("pointerover", under);
    this.plot.addEventListener("pointerleave", () => acts.point(null));
  }

  /**
   * @param {Outcome[]} runs
   * @param {string} metric
   * @param {import("../../lib/charts/sweep.js").Goal} goal
   * @param {string[]} order keys of the axes
   */
  show(runs, metric, goal, order) {
    const factors = factorsOf(runs).sort((a, b) => order.indexOf(a.key) - order.indexOf(b.key));
    this.node.hidden = !factors.length;
    this.#runs = runs;
    this.#goal = goal;
    this.#axes = axesOf(runs, factors.slice(0, MOST_AXES), metric);
    for (const key of this.#brushes.keys()) {
      if (!this.#axes.some((axis) => axis.key === key)) this.#brushes.delete(key);
    }
    this.#draw(this.#width);
  }

  /**
   * Highlight the line of a run.
   *
   * @param {string | null} id
   */
  light(id) {
    this.#lines.get(this.#lit)?.classList.remove("is-lit");
    this.#lit = id ?? "";
    this.#lines.get(this.#lit)?.classList.add("is-lit");
  }

  #selected() {
    const inside = within(this.#axes, this.#brushes);
    return this.#runs.filter((_, i) => inside[i]);
  }

  #clear() {
    this.#brushes.clear();
    this.#mark();
    this.plot.focus();
  }

  /** @param {number} width */
  #draw(width) {
    this.#width = width;
    if (!width || this.#axes.length < 2) return;
    const held = /** @type {Element | null} */ (document.activeElement)?.getAttribute("data-handle");
    const wide = Math.max(width, 2 * SIDE + (this.#axes.length - 1) * LEAST_GAP);
    const across = (/** @type {number} */ i) => SIDE + (i / (this.#axes.length - 1)) * (wide - 2 * SIDE);
    const near = nearness(this.#runs, this.#goal);
    this.#lines = new Map(this.#runs.map((run, i) => [run.id, this.#line(run, i, near[i], across)]));
    const axes = this.#axes.map((axis, i) => this.#axis(axis, across(i)));
    refill(
      this.plot,
      svg(
        "svg",
        { width: wide, height: HEIGHT, role: "group", "aria-label": "Axes" },
        ...this.#lines.values(),
        ...axes,
      ),
    );
    this.#mark();
    if (held) this.#focus(held);
  }

  /** @param {string} handle */
  #focus(handle) {
    const found = [...this.plot.querySelectorAll("[data-handle]")].find(
      (each) => each.getAttribute("data-handle") === handle,
    );
    /** @type {SVGElement | undefined} */ (found)?.focus();
  }

  /**
   * @param {Outcome} run
   * @param {number} i
   * @param {number | null} near
   * @param {(i: number) => number} across
   */
  #line({ id, name, state }, i, near, across) {
    const points = this.#axes.map((axis, k) => `${across(k).toFixed(1)} ${down(axis.places[i]).toFixed(1)}`);
    const values = this.#axes.map((axis) => `${axis.key} ${axis.texts[i]}`).join("\n");
    return svg(
      "path",
      {
        d: `M${points.join("L")}`,
        "data-run": id,
        class: near === null ? "is-bad" : "",
        "--ink":
          near === null
            ? "var(--critical)"
            : `color-mix(in oklab, var(--run-1) ${Math.round((1 - near) * 100)}%, var(--run-2))`,
      },
      svg("title", {}, `${name}${state === "failed" ? " (failed)" : ""}\n${values}`),
    );
  }

  /**
   * @param {Axis} axis
   * @param {number} x
   */
  #axis(axis, x) {
    const label = svg("text", { class: "name", x, y: 16 }, cut(axis.key), svg("title", {}, axis.key));
    const strip = svg("rect", { class: "strip", x: x - 20, y: 24, width: 40, height: HEIGHT - 28 });
    strip.addEventListener("pointerdown", (event) => this.#drag(axis, /** @type {PointerEvent} */ (event)));
    return svg(
      "g",
      { "data-axis": axis.key, class: axis.metric ? "axis is-metric" : "axis" },
      svg("line", { x1: x, x2: x, y1: down(1), y2: down(0) }),
      ...axis.ticks.map(({ at, text }) =>
        svg("text", { class: "tick", x: x + 10, y: down(at) + 4 }, cut(text), svg("title", {}, text)),
      ),
      label,
      svg("rect", { class: "brush", x: x - 6, y: 0, width: 12, height: 0 }),
      strip,
      this.#handle(axis, "lowest", x),
      this.#handle(axis, "highest", x),
    );
  }

  /**
   * @param {Axis} axis
   * @param {"lowest" | "highest"} end
   * @param {number} x
   */
  #handle(axis, end, x) {
    return svg("path", {
      class: "handle",
      d: end === "lowest" ? `M${x - 8} 0h16l-8 9z` : `M${x - 8} 0h16l-8 -9z`,
      tabindex: 0,
      role: "slider",
      "data-handle": `${end} ${axis.key}`,
      "aria-label": `${axis.key}, ${end}`,
      "aria-orientation": "vertical",
      "aria-valuemin": BELOW,
      "aria-valuemax": ABOVE,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(axis, end, event),
    });
  }

  /**
   * @param {Axis} axis
   * @param {"lowest" | "highest"} end
   * @param {KeyboardEvent} event
   */
  #key(axis, end, event) {
    const [low, high] = this.#brushes.get(axis.key) ?? [BELOW, ABOVE];
    const from = end === "lowest" ? low : high;
    const way = ["ArrowUp", "ArrowRight"].includes(event.key)
      ? 1
      : ["ArrowDown", "ArrowLeft"].includes(event.key)
        ? -1
        : 0;
    const to = { Home: BELOW, End: ABOVE }[event.key] ?? (way ? nextPlace(axis, from, way) : null);
    if (event.key === "Escape" && this.#brushes.delete(axis.key)) event.stopPropagation();
    else if (to === null) return;
    else if (end === "lowest") this.#brush(axis, Math.min(to, high), high);
    else this.#brush(axis, low, Math.max(to, low));
    event.preventDefault();
    this.#mark();
  }

  /**
   * @param {Axis} axis
   * @param {number} low
   * @param {number} high
   */
  #brush(axis, low, high) {
    if (low <= BELOW && high >= ABOVE) this.#brushes.delete(axis.key);
    else this.#brushes.set(axis.key, [low, high]);
  }

  /**
   * @param {Axis} axis
   * @param {PointerEvent} event
   */
  #drag(axis, event) {
    const strip = /** @type {Element} */ (event.currentTarget);
    const { top } = /** @type {Element} */ (strip.closest("svg")).getBoundingClientRect();
    const began = event.clientY - top;
    const moved = (/** @type {Event} */ move) => {
      const y = /** @type {PointerEvent} */ (move).clientY - top;
      const [low, high] = [placeAt(began), placeAt(y)].sort((a, b) => a - b);
      if (Math.abs(y - began) < CLICK_PX) this.#brushes.delete(axis.key);
      else this.#brush(axis, low, high);
      this.#mark();
    };
    strip.setPointerCapture(event.pointerId);
    strip.addEventListener("pointermove", moved);
    const ended = (/** @type {Event} */ up) => {
      strip.removeEventListener("pointermove", moved);
      if (up.type === "pointerup") moved(up);
    };
    for (const kind of ["pointerup", "pointercancel"]) strip.addEventListener(kind, ended, { once: true });
    event.preventDefault();
  }

  /** Show the selection without drawing the lines again. */
  #mark() {
    const inside = within(this.#axes, this.#brushes);
    this.#runs.forEach(({ id }, i) => this.#lines.get(id)?.classList.toggle("is-out", !inside[i]));
    for (const group of this.plot.querySelectorAll("[data-axis]")) {
      const axis = this.#axes.find(({ key }) => key === group.getAttribute("data-axis"));
      if (axis) this.#markAxis(axis, group);
    }
    const count = inside.filter(Boolean).length;
    const chosen = this.#brushes.size > 0;
    say(
      this.count,
      chosen
        ? `${int(count)} of ${int(inside.length)} runs selected`
        : "Drag along an axis to select runs. Blue is best; red dashes are runs without a finite value.",
    );
    this.only.hidden = this.none.hidden = !chosen;
    this.only.toggleAttribute("disabled", !count);
  }

  /**
   * @param {Axis} axis
   * @param {Element} group
   */
  #markAxis(axis, group) {
    const [low, high] = this.#brushes.get(axis.key) ?? [BELOW, ABOVE];
    const brush = group.querySelector(".brush");
    brush?.setAttribute("y", String(down(high)));
    brush?.setAttribute(
      "height",
      String(this.#brushes.has(axis.key) ? Math.max(3, down(low) - down(high)) : 0),
    );
    for (const handle of group.querySelectorAll(".handle")) {
      const place = handle.getAttribute("data-handle")?.startsWith("lowest ") ? low : high;
      handle.setAttribute("transform", `translate(0 ${down(place).toFixed(1)})`);
      handle.setAttribute("aria-valuenow", place.toFixed(3));
      handle.setAttribute("aria-valuetext", wordsOf(axis, place));
    }
  }
}

/**
 * Return the value at a place: that of the nearest run.
 *
 * @param {Axis} axis
 * @param {number} place
 */
function wordsOf({ places, texts }, place) {
  const off = places.map((each) => Math.abs(each - place));
  const nearest = off.indexOf(Math.min(...off));
  return place <= BELOW || place >= ABOVE ? "end of the axis" : (texts[nearest] ?? "");
}
