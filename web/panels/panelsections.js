/**
 * The sections of the charts of a run page, with their heads. Which are open is in the address; this browser
 * keeps it for those that are collapsed at first.
 *
 * Data: sections and view from panels/metricpanels.js. Draws: HTML; the charts are those of
 * panels/metricpanels.js.
 */

import { el, focusIn, refill } from "../browser/dom.js";
import { readOpen, writeOpen } from "../browser/opensections.js";
import { icon } from "../components/icons.js";
import { CUSTOM, PINNED, RANKS, SHUT_AT_FIRST } from "../lib/charts/sections.js";

/** @typedef {import("../lib/charts/sections.js").Section} Section */

/** Names for tests and style sheets of the sections whose keys aren't prefixes. */
const NAMES = /** @type {Record<string, string>} */ ({
  [PINNED]: "pinned",
  [CUSTOM]: "custom",
  [RANKS]: "ranks",
});

export class PanelSections {
  /** Sections that this browser keeps open. */
  #kept = readOpen();
  #key = "";

  /**
   * @param {{ view: () => import("../lib/views/runview.js").View, set: (change:
   *   Partial<import("../lib/views/runview.js").View>) => void, node: (name: string) => Node, keep: (shown:
   *   Set<string>) => void, ranks: Node, accept: (head: HTMLElement, key: string) => void }} source
   *   node: of a chart; keep: only these charts are shown; accept: lets charts be dropped on a head
   */
  constructor(source) {
    this.source = source;
    this.grid = el("div.sections");
  }

  /**
   * Show these sections, unless they are shown already.
   *
   * @param {Section[]} list
   */
  show(list) {
    const { shut, open, find, full, sizes } = this.source.view();
    const key = JSON.stringify([list, shut, open, this.#kept, find, full, sizes]);
    if (key === this.#key) return;
    this.#key = key;
    const focused = document.activeElement;
    const grip =
      focused instanceof HTMLElement && this.grid.contains(focused) ? focused.dataset.grip : undefined;
    this.source.keep(new Set(list.flatMap((each) => (this.#isShut(each.key) ? [] : each.names))));
    refill(this.grid, ...list.map((section) => this.#section(section)));
    if (grip !== undefined) focusIn(this.grid, `[data-grip="${CSS.escape(grip)}"]`);
  }

  /** @param {Section} section */
  #section({ key, title, names }) {
    const shut = this.#isShut(key);
    const head = el(
      "h3",
      {},
      el(
        "button.linkish.sectionhead",
        { type: "button", "aria-expanded": String(!shut), onclick: () => this.#toggle(key, shut) },
        el("span.arrow", { "aria-hidden": "true" }, shut ? "▸" : "▾"),
        key === PINNED ? icon("pin") : null,
        title,
        el("span.muted", {}, String(names.length)),
      ),
    );
    this.source.accept(head, key);
    return el(
      "section.series-section",
      { "data-section": NAMES[key] ?? key },
      head,
      key === RANKS && !shut ? this.source.ranks : null,
      el("div.grid2", { hidden: shut }, ...(shut ? [] : names.map((name) => this.source.node(name)))),
    );
  }

  /**
   * Return whether a section is collapsed. A filter opens what it finds.
   *
   * @param {string} key
   */
  #isShut(key) {
    const { shut, open, find } = this.source.view();
    if (!SHUT_AT_FIRST.includes(key)) return shut.includes(key);
    return !find && ![...open, ...this.#kept].includes(key);
  }

  /**
   * Open or collapse a section. This browser keeps what is collapsed at first.
   *
   * @param {string} key
   * @param {boolean} shut
   */
  #toggle(key, shut) {
    const { shut: before, open } = this.source.view();
    const turned = (/** @type {string[]} */ keys, /** @type {boolean} */ on) =>
      on ? [...new Set([...keys, key])] : keys.filter((each) => each !== key);
    if (!SHUT_AT_FIRST.includes(key)) return this.source.set({ shut: turned(before, !shut) });
    this.#kept = turned(this.#kept, shut);
    writeOpen(this.#kept);
    this.source.set({ open: turned(open, shut) });
  }
}
