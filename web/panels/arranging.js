/**
 * Moves and resizes the charts of a run page: by drag, by arrow keys, and from their menu.
 *
 * Data: the sections and the view, from panels/metricpanels.js. Draws: a grip and a corner for each chart.
 */

import { el } from "../browser/dom.js";
import { icon } from "../components/icons.js";
import { canMoveTo, moved, PINNED, placedIn } from "../lib/charts/sections.js";
import { draggedTo, resized } from "../lib/views/sizes.js";

const WAYS = /** @type {Record<string, number>} */ ({
  ArrowLeft: -1,
  ArrowUp: -1,
  ArrowRight: 1,
  ArrowDown: 1,
});

/** @type {import("../lib/views/sizes.js").Size} */
const NORMAL = { wide: false, height: null };

/** @param {HTMLElement} node */
const plotOf = (node) => /** @type {HTMLElement | null} */ (node.querySelector(".plot"));

/**
 * @param {HTMLElement} node
 * @param {import("../lib/views/sizes.js").Size} size
 */
function show(node, { wide, height }) {
  node.classList.toggle("is-wide", wide);
  const plot = plotOf(node);
  if (!plot) return;
  plot.dataset.h ??= plot.style.getPropertyValue("--h");
  plot.style.setProperty("--h", height === null ? plot.dataset.h : `${height}px`);
}

export class Arranging {
  /** @type {string | null} the chart that is being dragged */
  #dragged = null;

  /**
   * @param {{ list: () => import("../lib/charts/sections.js").Section[], view: () =>
   *   import("../lib/views/runview.js").View, set: (change:
   *   Partial<import("../lib/views/runview.js").View>) => void }} source
   */
  constructor(source) {
    this.source = source;
  }

  /** @param {string} name */
  grip(name) {
    return el(
      "button.grip",
      {
        type: "button",
        draggable: "true",
        "data-grip": name,
        "aria-label": `Move ${name}: arrow keys, or drag`,
        title: "Drag, or arrow keys",
        onkeydown: (/** @type {KeyboardEvent} */ event) => {
          if (!(event.key in WAYS)) return;
          event.preventDefault();
          this.move(name, WAYS[event.key]);
        },
        ondragstart: (/** @type {DragEvent} */ event) => {
          this.#dragged = name;
          event.dataTransfer?.setData("text/plain", name);
        },
        ondragend: () => {
          this.#dragged = null;
        },
      },
      icon("grip"),
    );
  }

  /**
   * Let another chart be dropped on the node of a chart: it takes its place.
   *
   * @param {HTMLElement} node
   * @param {string} name
   */
  accept(node, name) {
    this.#target(
      node,
      () => this.#sectionOf(name)?.key,
      () => this.#sectionOf(name)?.names.indexOf(name) ?? 0,
    );
  }

  /**
   * Let a chart be dropped on the head of a section: it becomes its first one.
   *
   * @param {HTMLElement} head
   * @param {string} key
   */
  acceptInto(head, key) {
    this.#target(
      head,
      () => key,
      () => 0,
    );
  }

  /**
   * @param {HTMLElement} node
   * @param {() => string | undefined} key
   * @param {() => number} place
   */
  #target(node, key, place) {
    const fits = () => {
      const [name, to] = [this.#dragged, key()];
      const same = name !== null && this.#sectionOf(name)?.key === to;
      return name !== null && to !== undefined && (same || canMoveTo(name, to)) ? { name, to } : null;
    };
    node.addEventListener("dragover", (event) => {
      if (fits()) event.preventDefault();
    });
    node.addEventListener("drop", (event) => {
      event.preventDefault();
      const found = fits();
      if (found) this.into(found.name, found.to, place());
    });
  }

  /**
   * Move a chart to a place of a section, at its end by default.
   *
   * @param {string} name
   * @param {string} key
   * @param {number} [to]
   */
  into(name, key, to = Infinity) {
    const section = this.source.list().find((each) => each.key === key) ?? { key, title: "", names: [] };
    const { order, panels, pins, placed } = this.source.view();
    if (key === PINNED) return this.source.set({ pins: moved(section, name, to, pins) });
    this.source.set({
      pins: pins.filter((each) => each !== name),
      placed: canMoveTo(name, key) ? placedIn(placed, name, key, panels.includes(name)) : placed,
      order: moved(
        section,
        name,
        to,
        order.filter((each) => each !== name),
      ),
    });
  }

  /**
   * @param {string} name
   * @param {number} by places
   */
  move(name, by) {
    const section = this.#sectionOf(name);
    const to = section ? section.names.indexOf(name) + by : -1;
    if (section && to >= 0) this.into(name, section.key, to);
  }

  /**
   * Give a chart the size of the view.
   *
   * @param {HTMLElement} node
   * @param {string} name
   */
  fit(node, name) {
    show(node, this.source.view().sizes[name] ?? NORMAL);
  }

  /**
   * Return the corner that resizes a chart by drag.
   *
   * @param {HTMLElement} node
   * @param {string} name
   */
  corner(node, name) {
    const corner = el("i.corner", { "aria-hidden": "true", title: "Drag to resize" });
    corner.addEventListener("pointerdown", (down) => {
      const plot = plotOf(node);
      const room = node.parentElement?.clientWidth ?? 0;
      const start = { width: node.offsetWidth, height: plot?.offsetHeight ?? 0 };
      const before = this.source.view().sizes[name] ?? NORMAL;
      let size = before;
      const drag = (/** @type {PointerEvent} */ event) => {
        const to = draggedTo(
          start,
          { x: event.clientX - down.clientX, y: event.clientY - down.clientY },
          room,
        );
        size = plot && to.height !== start.height ? to : { ...to, height: before.height };
        show(node, size);
      };
      const end = () => {
        corner.removeEventListener("pointermove", drag);
        this.source.set({ sizes: resized(this.source.view().sizes, name, size) });
      };
      down.preventDefault();
      corner.setPointerCapture(down.pointerId);
      corner.addEventListener("pointermove", drag);
      corner.addEventListener("lostpointercapture", end, { once: true });
    });
    return corner;
  }

  /** @param {string} name */
  #sectionOf(name) {
    return this.source.list().find((section) => section.names.includes(name));
  }
}
