/** Every run a row, live, the ones that need a person on top. */

import { GROUPS, grouped } from "../lib/attention.js";
import { el, refill, say } from "../lib/dom.js";
import { runFilter } from "../lib/filter.js";
import { counted, int } from "../lib/format.js";
import { emptyFleet } from "../parts/empty.js";
import { FleetRow } from "../parts/fleetrow.js";
import { icon } from "../parts/icons.js";
import { button, notice } from "../parts/notice.js";

const HEADS = ["Run", "Alerts", "Step", "Loss", "Grad norm (log)", "Loss scale (log₂)", "Learning rate", "Faults", "Last seen"];
/** @type {Record<string, string>} */
const SHAPES = { critical: "critical", warning: "warning" };

class Fleet {
  /** @type {Map<string, RunRow>} */
  #runs = new Map();
  /** @type {Map<string, FleetRow>} */
  #rows = new Map();
  #loaded = false;
  #frame = 0;

  /** @param {import("../main.js").App} app @param {HTMLElement} main */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.count = el("span.muted", {}, "–");
    this.input = /** @type {HTMLInputElement} */ (el("input", { placeholder: "name, project:, tag:fp16, state:running, rule:", spellcheck: "false", "aria-label": "Filter runs", oninput: () => this.#draw() }));
    this.groups = GROUPS.map(({ health, title, note }) => {
      const number = el("span.muted"), list = el("ul");
      const head = el("h2.grouphead", {}, SHAPES[health] ? el("span", { class: `is-${health}` }, icon(SHAPES[health])) : null, title, number, el("span.micro", {}, note));
      return { health, number, list, node: el("section", { "aria-label": title, hidden: true }, head, list) };
    });
    this.table = el("section.card.fleet", { "aria-label": "Runs by attention" }, el("div.fl.head", { "aria-hidden": "true" }, ...HEADS.map((head) => el("span", {}, head))), ...this.groups.map((group) => group.node));
    this.nothing = el("p.pad.muted", { hidden: true });
    this.table.append(this.nothing);
    this.page = el("div", {}, el("div.pagehead", {}, el("h1", {}, "Fleet"), this.count), el("div.bar", { role: "search" }, el("label.field.query", {}, icon("search"), this.input, el("kbd", {}, "/"))), this.table);
    this.key = (/** @type {KeyboardEvent} */ event) => this.#key(event);
  }

  open() {
    this.app.title("Fleet");
    refill(this.main, this.page);
    document.addEventListener("keydown", this.key);
    this.unsubscribe = this.app.live.subscribe({ view: "fleet" }, { message: (frame) => this.#hear(frame), reconnected: () => void this.#load() });
    this.ticker = setInterval(() => { for (const row of this.#rows.values()) row.tick(this.app.clock.now()); }, 1000);
    void this.#load();
  }

  close() {
    this.unsubscribe?.();
    clearInterval(this.ticker);
    cancelAnimationFrame(this.#frame);
    document.removeEventListener("keydown", this.key);
  }

  async #load() {
    try {
      const { items, now_ms } = await this.app.api.allRuns();
      this.app.clock.hear(now_ms);
      this.#runs = new Map(items.map((row) => [row.id, row]));
      this.#loaded = true;
      this.#draw();
    } catch (error) {
      if (!this.#loaded) refill(this.main, notice("The list of runs did not load", String(/** @type {Error} */ (error).message), "It is asked for again when the server is back.", button("Try now", () => void this.#load())));
    }
  }

  /** @param {{ items: RunRow[], removed: string[], now_ms: number }} frame */
  #hear(frame) {
    this.app.clock.hear(frame.now_ms);
    // A row without sparks keeps those it had.
    for (const row of frame.items ?? []) this.#runs.set(row.id, { ...this.#runs.get(row.id), ...row });
    for (const id of frame.removed ?? []) this.#runs.delete(id);
    this.#loaded = true;
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    const all = [...this.#runs.values()].filter((row) => !row.archived), empty = !all.length && this.#loaded;
    if (empty && this.main.firstElementChild?.className !== "empty") return void refill(this.main, emptyFleet(this.app));
    if (empty) return;
    if (this.main.firstElementChild !== this.page) refill(this.main, this.page);
    const shown = all.filter(runFilter(this.input.value));
    this.#count(all, shown);
    grouped(shown).forEach(({ rows }, i) => this.#group(this.groups[i], rows));
    for (const [id, row] of this.#rows) if (!this.#runs.has(id)) { row.node.remove(); this.#rows.delete(id); }
  }

  /** @param {RunRow[]} all @param {RunRow[]} shown */
  #count(all, shown) {
    const live = all.filter((row) => row.state === "running" || row.state === "stalled").length, projects = new Set(all.map((row) => row.project)).size;
    say(this.count, `${shown.length < all.length ? `${int(shown.length)} of ` : ""}${counted(all.length, "run")} · ${counted(projects, "project")} · ${counted(live, "trainer")} connected`);
    this.nothing.hidden = shown.length > 0;
    say(this.nothing, `No run matches “${this.input.value}”.`);
  }

  /** Puts rows into their places and leaves those alone that are there already. @param {{ number: HTMLElement, list: HTMLElement, node: HTMLElement }} group @param {RunRow[]} rows */
  #group(group, rows) {
    group.node.hidden = !rows.length;
    say(group.number, int(rows.length));
    rows.forEach((row, i) => {
      const kept = this.#rows.get(row.id) ?? new FleetRow(row);
      this.#rows.set(row.id, kept);
      if (kept.row !== row || !kept.keys.size) kept.show(row, this.app.clock.now());
      if (group.list.children[i] !== kept.node) group.list.insertBefore(kept.node, group.list.children[i] ?? null);
    });
    while (group.list.children.length > rows.length) group.list.lastElementChild?.remove();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key !== "/" || /** @type {Element} */ (event.target).closest?.("input, textarea, select")) return;
    event.preventDefault();
    this.input.focus();
  }
}

/** @type {import("../main.js").OpenPage} */
export function fleetPage(app, main) {
  const fleet = new Fleet(app, main);
  fleet.open();
  return { close: () => fleet.close(), moved: () => true };
}
