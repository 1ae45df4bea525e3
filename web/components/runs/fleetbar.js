/** The bar above the fleet: filter, groups, views, columns, archived and deleted runs, selected runs. */

import { el, refill, say } from "../../browser/dom.js";
import { counted, dotted, int } from "../../lib/format.js";
import { outside } from "../../lib/root.js";
import { addressOf } from "../../lib/route.js";
import { GROUPINGS } from "../../lib/views/fleetview.js";
import { icon } from "../icons.js";
import { button } from "../notice.js";

/** @typedef {import("../../lib/views/fleetview.js").FleetView} FleetView */

export class FleetBar {
  /**
   * @param {{ view: () => FleetView, set: (change: Partial<FleetView>) => void, may: boolean, views: Node,
   *   columns: () => void, save: () => void, actions: Pick<import("./fleetactions.js").FleetActions,
   *   "archiveAll" | "removeAll" | "restoreAll"> }} source may: whether runs can be changed; views: the menu
   *   of saved views; save: as CSV
   */
  constructor(source) {
    this.source = source;
    const { set, view } = source;
    this.count = el("span.muted", {}, "–");
    this.input = /** @type {HTMLInputElement} */ (
      el("input", {
        placeholder: "name, tag:fp16, val_loss<0.5, config.lr>1e-4",
        spellcheck: "false",
        "aria-label": "Filter runs",
        oninput: () => set({ q: this.input.value }),
      })
    );
    this.grouping = /** @type {HTMLSelectElement} */ (
      el(
        "select",
        {
          "aria-label": "Group by",
          onchange: () => set({ group: /** @type {FleetView["group"]} */ (this.grouping.value) }),
        },
        ...GROUPINGS.map(([key, text]) => el("option", { value: key }, text)),
      )
    );
    this.compare = el("a.btn", { href: "/compare" });
    this.archived = shelf("Archived", () => set({ archived: !view().archived, deleted: false, picked: [] }));
    this.deleted = shelf("Deleted", () => set({ deleted: !view().deleted, archived: false, picked: [] }));
    this.together = el("span.pickbar", {
      hidden: true,
      role: "group",
      "aria-label": "Actions on the selected runs",
    });
    this.nothing = el("p.card.pad.muted", { hidden: true });
    this.misread = el("p.misread.soft", { hidden: true, role: "status", id: "misread" });
    this.node = this.#bar();
  }

  #bar() {
    const { set, views, columns, save } = this.source;
    return el(
      "div.bar.fleetbar",
      { role: "search" },
      el("label.field.query", {}, icon("search"), this.input, el("kbd.wide-only", {}, "/")),
      el("label.row.tight", {}, el("span.soft.wide-only", {}, "Group"), this.grouping),
      views,
      el(
        "button.btn",
        { type: "button", "aria-haspopup": "dialog", onclick: columns },
        icon("fleet"),
        "Columns",
      ),
      el(
        "button.btn.wide-only",
        { type: "button", title: "The listed runs with these columns as CSV", onclick: save },
        icon("down"),
        "CSV",
      ),
      this.archived,
      this.deleted,
      el(
        "button.btn.wide-only",
        {
          type: "button",
          title: "Kiosk mode: only the runs, larger",
          onclick: () => set({ kiosk: true }),
        },
        "Kiosk mode",
      ),
      el("span.grow"),
      this.together,
      this.compare,
    );
  }

  /** Apply the view. */
  look() {
    const { q, group, archived, deleted } = this.source.view();
    if (this.input.value !== q) this.input.value = q;
    this.grouping.value = group;
    this.archived.setAttribute("aria-pressed", String(archived));
    this.deleted.setAttribute("aria-pressed", String(deleted));
    this.#showActions();
    this.#showCompare();
  }

  /**
   * Mark the first part of the filter that is not understood, and say what was expected there.
   *
   * @param {ReturnType<typeof import("../../lib/runs/filter.js").filterProblems>[number] | undefined} problem
   */
  sayMisread(problem) {
    const { q } = this.source.view();
    this.input.setAttribute("aria-invalid", String(Boolean(problem)));
    this.misread.hidden = !problem;
    if (!problem) return refill(this.misread);
    const { at, end, expected } = problem;
    refill(
      this.misread,
      el("code", {}, q.slice(0, at), el("mark", {}, q.slice(at, end)), q.slice(end)),
      ` Expected ${expected}.`,
    );
  }

  /**
   * Show counts, and why no run is listed.
   *
   * @param {RunRow[]} all
   * @param {RunRow[]} shown
   * @param {{ archived: number, deleted: number }} away
   * @param {boolean} loading whether metrics or settings of the filter are not loaded yet
   */
  show(all, shown, away, loading) {
    const { archived, deleted } = this.source.view();
    const live = all.filter((row) => row.state === "running" || row.state === "stalled").length;
    const projects = new Set(all.map((row) => row.project)).size;
    const kind = deleted ? "deleted run" : archived ? "archived run" : "run";
    const part = shown.length < all.length ? `${int(shown.length)} of ` : "";
    say(
      this.count,
      dotted(
        `${part}${counted(all.length, kind)}`,
        counted(projects, "project"),
        `${counted(live, "training process", "training processes")} connected`,
      ),
    );
    this.archived.hidden = !away.archived && !archived;
    say(this.archived, `Archived ${int(away.archived)}`);
    this.deleted.hidden = !away.deleted && !deleted;
    say(this.deleted, `Deleted ${int(away.deleted)}`);
    this.nothing.hidden = shown.length > 0;
    say(this.nothing, loading ? "Loading the values for the filter." : this.#whyNone(all.length));
  }

  /** @param {number} all */
  #whyNone(all) {
    const { q, archived, deleted } = this.source.view();
    if (all) return `No run matches “${q}”. Clear the filter to see ${counted(all, "run")}.`;
    if (deleted) return "No deleted runs.";
    if (archived) return "No archived runs.";
    return "All runs are archived or deleted. Use the buttons above to show them.";
  }

  #showCompare() {
    const { picked } = this.source.view();
    const asked = picked.length ? `?${new URLSearchParams(picked.map((id) => ["run", id]))}` : "";
    this.compare.setAttribute("href", outside(addressOf("/compare", asked)));
    refill(
      this.compare,
      icon("compare"),
      "Compare ",
      el("span.muted", {}, picked.length > 1 ? `${int(picked.length)} selected` : TO_COMPARE[picked.length]),
    );
    this.compare.classList.toggle("primary", picked.length > 1);
  }

  #showActions() {
    const { view, set, may, actions } = this.source;
    const { picked, deleted, archived } = view();
    const key = `${picked.length > 0} ${deleted} ${archived}`;
    if (key === this.together.dataset.key) return;
    this.together.dataset.key = key;
    this.together.hidden = !picked.length;
    const archive = () => void actions.archiveAll(view().picked, !archived);
    const able = deleted
      ? [button("Restore", () => void actions.restoreAll(view().picked))]
      : [
          button(archived ? "Unarchive" : "Archive", archive, "box"),
          button("Delete", () => void actions.removeAll(view().picked), "trash"),
        ];
    refill(
      this.together,
      ...(may ? able : []),
      button("Clear", () => set({ picked: [] }), "close"),
    );
  }
}

/** What to do to compare runs, by the number of those selected. */
const TO_COMPARE = ["select 2+", "select another"];

/**
 * @param {string} text
 * @param {() => void} toggle
 */
const shelf = (text, toggle) =>
  el("button.btn", { type: "button", "aria-pressed": "false", onclick: toggle }, text);
