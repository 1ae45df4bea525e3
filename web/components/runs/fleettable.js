/** The fleet table: thousands of rows, of which only visible ones exist. */

import { el, refill, sizeObserver } from "../../browser/dom.js";
import { int } from "../../lib/format.js";
import { columnsOf, leastWidth, tracks, widthOf } from "../../lib/runs/columns.js";
import { offsets, sight } from "../../lib/virtual.js";
import { icon } from "../icons.js";
import { FleetRow, grouped } from "./fleetrow.js";

/**
 * @typedef {import("../../lib/views/fleetview.js").FleetView} FleetView
 * @typedef {import("../../lib/views/fleetview.js").Item} Item
 */

const HEAD_PX = 42;
/** Rows created beyond the window's edges, so that scrolling shows no gaps. */
const SPARE_PX = 400;
/** Scrolling counts as stopped after this long without movement. */
const REST_MS = 120;
const MOST_ASKED = 120;
/** @type {Record<string, string>} */
const SHAPES = { critical: "critical", warning: "warning", pinned: "pin" };

export class FleetTable {
  /** @type {Item[]} */
  items = [];
  /** @type {number[]} */
  tops = [0];
  /** @type {Map<string, FleetRow>} */
  rows = new Map();
  /** @type {Map<string, { node: HTMLElement, number: HTMLElement }>} */
  heads = new Map();
  /**
   * The newest state of each run; the list itself may be older.
   *
   * @type {ReadonlyMap<string, RunRow>}
   */
  runs = new Map();
  /** All runs of the list, visible or not. */
  ids = new Set([""]);
  /** @type {Set<string>} selected runs */
  picked = new Set();
  #frame = 0;
  columnKey = "";
  /** @type {import("../../lib/runs/columns.js").Column[]} */
  columns = [];
  /** @type {Record<string, number>} */
  widths = {};
  /** @type {string | null} the column that is dragged to another place */
  dragged = null;

  /**
   * @param {{ now: () => number, sort: (id: string) => void, lacking: (ids: string[]) => void, mine: (id:
   *   string) => { picked: boolean, pinned: boolean }, all: (on: boolean) => void,
   *   resize: (id: string, px: number) => void, move: (id: string, before: string | null) => void } &
   *   import("./fleetrow.js").RowActs} source
   */
  constructor(source) {
    this.source = source;
    this.every = /** @type {HTMLInputElement} */ (
      el("input", {
        type: "checkbox",
        "aria-label": "Select all listed",
        title: "Select all listed",
        onchange: () => source.all(this.every.checked),
      })
    );
    this.header = el("div.fl.head", { role: "row" });
    this.body = el("div.rows", { role: "rowgroup" });
    this.node = el(
      "div.card.fleet",
      { role: "table", "aria-label": "Runs" },
      el("div.headgroup", { role: "rowgroup" }, this.header),
      this.body,
    );
    this.onscroll = () => this.#ask();
    this.observer = sizeObserver(() => this.arrange(this.items));
  }

  open() {
    addEventListener("scroll", this.onscroll, { passive: true });
    this.observer.observe(this.node);
  }

  close() {
    removeEventListener("scroll", this.onscroll);
    this.observer.disconnect();
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.resting);
  }

  /** @param {FleetView} view */
  look(view) {
    const columns = columnsOf(view.columns);
    const key = JSON.stringify(columns.map((column) => column.id));
    this.widths = view.widths;
    this.node.style.setProperty("--cols", tracks(columns, view.widths));
    this.node.style.setProperty("--least", leastWidth(columns, view.widths));
    this.picked = new Set(view.picked);
    this.#markEvery();
    refill(
      this.header,
      el("span.c-pick", { role: "columnheader" }, this.every),
      ...columns.map((column) => this.#columnHead(column, view)),
      el("span", { role: "columnheader" }, el("span.vh", {}, "Pin, archive")),
    );
    if (key === this.columnKey) return;
    this.columnKey = key;
    this.columns = columns;
    this.forget();
  }

  /** The box above the others is checked if all listed runs are selected, and filled if some are. */
  #markEvery() {
    const some = this.picked.size > 0;
    const all = some && [...this.ids].every((id) => !id || this.picked.has(id));
    this.every.checked = all;
    this.every.indeterminate = some && !all;
  }

  /** Drop the nodes of all rows, so that the next `arrange` makes them again. */
  forget() {
    for (const row of this.rows.values()) row.node.remove();
    this.rows.clear();
  }

  /**
   * @param {import("../../lib/runs/columns.js").Column} column
   * @param {FleetView} view
   */
  #columnHead(column, view) {
    const on = view.sort === column.id;
    const way = on ? (view.down ? "descending" : "ascending") : null;
    const title = column.own ? column.title : column.title.toLowerCase();
    const head = el(
      "span.colhead",
      { role: "columnheader", "aria-sort": way, "data-column": column.id },
      el(
        "button",
        {
          type: "button",
          "data-sort": column.id,
          title: `Sort by ${title}${column.always ? "" : ". Drag to move the column."}`,
          draggable: column.always ? null : "true",
          onclick: () => this.source.sort(column.id),
          ondragstart: (/** @type {DragEvent} */ event) => {
            this.dragged = column.id;
            event.dataTransfer?.setData("text/plain", column.title);
          },
        },
        column.title,
        on ? (view.down ? " ↓" : " ↑") : "",
      ),
      this.#grip(column),
    );
    head.addEventListener("dragover", (event) => {
      if (this.dragged) event.preventDefault();
    });
    head.addEventListener("drop", (event) => {
      event.preventDefault();
      if (this.dragged) this.#drop(this.dragged, column.id);
      this.dragged = null;
    });
    return head;
  }

  /**
   * Put a column where another one is: before it if it comes from the right, else after it.
   *
   * @param {string} id
   * @param {string} target
   */
  #drop(id, target) {
    const ids = this.columns.map((column) => column.id);
    const right = ids.indexOf(id) < ids.indexOf(target);
    this.source.move(id, right ? (ids[ids.indexOf(target) + 1] ?? null) : target);
  }

  /**
   * The edge of a column that resizes it: drag it, or use the arrow keys.
   *
   * @param {import("../../lib/runs/columns.js").Column} column
   */
  #grip(column) {
    const now = () => grip.parentElement?.getBoundingClientRect().width ?? 0;
    const grip = el("span.colgrip", {
      role: "separator",
      tabindex: "0",
      "aria-orientation": "vertical",
      "aria-label": `Width of ${column.title}`,
      "aria-valuemin": "48",
      "aria-valuenow": this.widths[column.id] ?? 100,
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        const by = { ArrowLeft: -10, ArrowRight: 10 }[event.key];
        if (!by) return;
        event.preventDefault();
        this.source.resize(column.id, widthOf(now() + by));
        /** @type {HTMLElement | null} */ (
          this.header.querySelector(`[data-column="${CSS.escape(column.id)}"] .colgrip`)
        )?.focus();
      },
    });
    grip.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      grip.setPointerCapture(event.pointerId);
      const [from, width] = [event.clientX, now()];
      const drag = (/** @type {PointerEvent} */ moved) => {
        const px = widthOf(width + moved.clientX - from);
        const widths = { ...this.widths, [column.id]: px };
        this.node.style.setProperty("--cols", tracks(this.columns, widths));
        this.node.style.setProperty("--least", leastWidth(this.columns, widths));
      };
      grip.addEventListener("pointermove", drag);
      grip.addEventListener(
        "lostpointercapture",
        (ended) => {
          grip.removeEventListener("pointermove", drag);
          if (ended.clientX !== from) this.source.resize(column.id, widthOf(width + ended.clientX - from));
        },
        { once: true },
      );
    });
    return grip;
  }

  /** @param {Item[]} items */
  arrange(items) {
    this.items = items;
    this.ids = new Set(items.map((item) => ("row" in item ? item.row.id : "")));
    this.#markEvery();
    const row = this.#rowHeight();
    this.node.style.setProperty("--row-px", `${row}px`);
    for (const head of this.header.querySelectorAll(".colhead")) {
      const width = Math.round(head.getBoundingClientRect().width);
      head.querySelector(".colgrip")?.setAttribute("aria-valuenow", String(width));
    }
    this.tops = offsets(items.map((item) => ("row" in item ? row : HEAD_PX)));
    this.body.style.setProperty("--all", `${this.tops[this.tops.length - 1]}px`);
    this.node.setAttribute("aria-rowcount", String(items.length + 1));
    this.#draw();
  }

  /** On a narrow screen, vital signs and a user's own columns stand in lines below the others. */
  #rowHeight() {
    const style = getComputedStyle(this.node);
    const px = (/** @type {string} */ name) => parseFloat(style.getPropertyValue(name));
    const across = px("--own-across") || 1;
    const groups = grouped(this.columns);
    const signs = groups.some(({ kind }) => kind === "vit") ? 0 : px("--vit-h") || 0;
    const lines = groups
      .filter(({ kind }) => kind === "own")
      .reduce((sum, { from, to }) => sum + Math.ceil((to - from) / across), 0);
    return (px("--row-h") || 60) - signs + lines * (px("--own-h") || 0);
  }

  /**
   * Show the newest state of each visible run.
   *
   * @param {ReadonlyMap<string, RunRow>} runs
   */
  refresh(runs) {
    this.runs = runs;
    for (const [id, row] of this.rows) {
      row.show(runs.get(id) ?? row.row, this.source.now(), this.source.mine(id));
    }
  }

  age() {
    for (const row of this.rows.values()) row.age(this.source.now());
  }

  #ask() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    const top = this.body.getBoundingClientRect().top;
    const [first, end] = sight(this.tops, -top - SPARE_PX, innerHeight - top + SPARE_PX);
    const wanted = new Set(
      this.items.slice(first, end).map((item) => ("row" in item ? item.row.id : item.head)),
    );
    for (const [id, row] of this.rows) if (!wanted.has(id)) this.#leave(id, row);
    for (const [key, head] of this.heads) {
      if (!wanted.has(key)) {
        head.node.remove();
        this.heads.delete(key);
      }
    }
    for (let i = first, before = /** @type {Element | null} */ (this.body.firstElementChild); i < end; i++) {
      const node = this.#node(i);
      if (node === before) before = node.nextElementSibling;
      else this.body.insertBefore(node, before);
    }
    this.#lacking();
  }

  /** Request missing sparklines of visible rows once scrolling stops. */
  #lacking() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.askSparks((row) => !row.sparks), REST_MS);
  }

  /**
   * Request the sparklines of some of the visible rows.
   *
   * @param {(row: RunRow) => boolean} which
   */
  askSparks(which) {
    const ids = [...this.rows.values()].filter(({ row }) => which(row)).map(({ row }) => row.id);
    if (ids.length) this.source.lacking(ids.slice(0, MOST_ASKED));
  }

  /**
   * A focused row stays while it is out of view; if it left the list, the focus moves to its neighbor.
   *
   * @param {string} id
   * @param {FleetRow} row
   */
  #leave(id, row) {
    const focused = row.node.contains(document.activeElement);
    if (focused && this.ids.has(id)) return;
    const near = row.node.nextElementSibling ?? row.node.previousElementSibling;
    row.node.remove();
    this.rows.delete(id);
    if (focused) /** @type {HTMLElement | null | undefined} */ (near?.querySelector(".name a"))?.focus();
  }

  /**
   * The node of item `i`, at its position.
   *
   * @param {number} i
   */
  #node(i) {
    const item = this.items[i];
    const node = "row" in item ? this.#row(item.row) : this.#head(item);
    const y = `${this.tops[i]}px`;
    if (node.style.getPropertyValue("--y") !== y) node.style.setProperty("--y", y);
    node.setAttribute("aria-rowindex", String(i + 2));
    return node;
  }

  /** @param {RunRow} listed */
  #row(listed) {
    const row = this.runs.get(listed.id) ?? listed;
    const kept = this.rows.get(row.id) ?? new FleetRow(row, this.columns, this.source);
    this.rows.set(row.id, kept);
    kept.show(row, this.source.now(), this.source.mine(row.id));
    return kept.node;
  }

  /** @param {Extract<Item, { head: string }>} item */
  #head({ head, title, note, count }) {
    const known = this.heads.get(head);
    if (known) {
      known.number.textContent = int(count);
      return known.node;
    }
    const number = el("span.muted", {}, int(count));
    const shape = SHAPES[head];
    const node = el(
      "div.grouprow",
      { role: "row", "data-group": head },
      el(
        "div.grouphead",
        { role: "cell" },
        shape ? el("span", { class: `is-${head}` }, icon(shape)) : null,
        el("b", {}, title),
        number,
        el("span.micro", {}, note),
      ),
    );
    this.heads.set(head, { node, number });
    return node;
  }
}
