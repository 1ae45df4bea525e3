/**
 * The list of the inbox: rows in groups. Rows are reused and moved, and they keep their positions while the
 * pointer is over them.
 */

import { el, refill, say } from "../../browser/dom.js";
import { int } from "../../lib/format.js";
import { failed } from "../form.js";
import { icon } from "../icons.js";
import { AlertRow } from "./alertrow.js";

/** @typedef {import("../../lib/alerts/inbox.js").Group} Group */
/** @typedef {import("../../lib/alerts/incidents.js").Incident} Incident */

/** Rows shown initially, and added by each click. */
const PAGE = 150;

/**
 * What the list needs from the page. `facts` is what a row shows besides its alert.
 *
 * @typedef {{ choose: (id: string) => void, pick: (id: string) => void, again: () => void,
 *   showAll: () => void, redraw: () => void, soon: () => void, chosen: () => string | null,
 *   facts: (alert: Incident) => import("./marktexts.js").RowContext }} ListSource
 */
/** @typedef {"error" | "loading" | "plain" | "filtered"} WhyEmpty */

export class InboxList {
  /** @type {string[]} ids in the order shown */
  order = [];
  /** @type {Map<string, AlertRow>} */
  #rows = new Map();
  /** @type {Map<string, HTMLElement>} heads of groups */
  #heads = new Map();
  #most = PAGE;
  #hovered = false;
  #shape = "";

  /** @param {ListSource} source */
  constructor(source) {
    this.source = source;
    this.rows = el("div.alertrows", { role: "listbox", tabindex: "0", "aria-label": "Incidents" });
    this.nothing = el("div", { hidden: true });
    this.more = el("button.btn.morerows", {
      type: "button",
      hidden: true,
      onclick: () => {
        this.#most += PAGE;
        source.redraw();
      },
    });
    this.node = el("section.card.listing", { "aria-label": "Inbox" }, this.rows, this.nothing, this.more);
    this.node.addEventListener("pointerenter", () => {
      this.#hovered = true;
    });
    this.node.addEventListener("pointerleave", () => {
      this.#hovered = false;
      source.soon();
    });
  }

  /** Let the next drawing move rows, even under the pointer. */
  release() {
    this.#shape = "";
  }

  /**
   * Return the element of a row, if it is shown.
   *
   * @param {string} id
   */
  rowOf(id) {
    return this.#rows.get(id)?.node ?? null;
  }

  /**
   * @param {Group[]} groups
   * @param {string[]} ids
   */
  draw(groups, ids) {
    const cut = this.#cut(groups);
    const shape = JSON.stringify(cut.map((group) => [group.key, group.items.map((alert) => alert.id)]));
    if (shape !== this.#shape && !(this.#hovered && this.#shape)) {
      const chosen = this.source.chosen();
      const anchor = chosen ? this.rowOf(chosen) : null;
      const was = anchor?.isConnected ? anchor.getBoundingClientRect().top : null;
      this.#shape = shape;
      this.order = ids;
      this.#place(cut);
      if (anchor && was !== null && scrollY > 0) scrollBy(0, anchor.getBoundingClientRect().top - was);
    }
    for (const group of groups) {
      const head = this.#heads.get(group.key)?.querySelector(".muted");
      if (head) say(head, int(group.items.length));
    }
    this.refresh(groups.flatMap((group) => group.items));
    const hidden = ids.length - Math.min(ids.length, this.#most);
    this.more.hidden = !hidden;
    say(this.more, `Show ${int(Math.min(PAGE, hidden))} of ${int(hidden)} more`);
  }

  /**
   * Show what has changed of incidents whose rows stay in place.
   *
   * @param {Incident[]} alerts
   */
  refresh(alerts) {
    const chosen = this.source.chosen();
    for (const alert of alerts) {
      this.#rows.get(alert.id)?.show(alert, this.source.facts(alert), alert.id === chosen);
    }
  }

  /**
   * The first rows of the groups, as many as are shown.
   *
   * @param {Group[]} groups
   */
  #cut(groups) {
    let room = this.#most;
    return groups
      .map((group) => {
        const items = group.items.slice(0, room);
        room -= items.length;
        return { ...group, items };
      })
      .filter((group) => group.items.length);
  }

  /** @param {Group[]} groups */
  #place(groups) {
    const kept = new Set(groups.flatMap((group) => group.items.map((alert) => alert.id)));
    for (const id of [...this.#rows.keys()]) if (!kept.has(id)) this.#rows.delete(id);
    const boxes = groups.map((group) => {
      const box = this.#heads.get(group.key) ?? groupBox(group);
      this.#heads.set(group.key, box);
      const rows = group.items.map((alert) => this.#row(alert.id));
      [...box.children].slice(1).forEach((node) => {
        if (!rows.includes(/** @type {HTMLElement} */ (node))) node.remove();
      });
      rows.forEach((node, i) => {
        if (box.children[i + 1] !== node) box.insertBefore(node, box.children[i + 1] ?? null);
      });
      return box;
    });
    for (const node of [...this.rows.children]) {
      if (!boxes.includes(/** @type {HTMLElement} */ (node))) node.remove();
    }
    boxes.forEach((box, i) => {
      if (this.rows.children[i] !== box) this.rows.insertBefore(box, this.rows.children[i] ?? null);
    });
    this.rows.hidden = !boxes.length;
  }

  /** @param {string} id */
  #row(id) {
    const row =
      this.#rows.get(id) ??
      new AlertRow(id, { choose: () => this.source.choose(id), pick: () => this.source.pick(id) });
    this.#rows.set(id, row);
    return row.node;
  }

  /**
   * Say why no incident is listed; null if any is.
   *
   * @param {WhyEmpty | null} why
   * @param {unknown} error
   */
  empty(why, error) {
    this.nothing.hidden = why === null;
    if (this.nothing.dataset.why === (why ?? "")) return;
    this.nothing.dataset.why = why ?? "";
    if (why === "error") failed(this.nothing, error, this.source.again);
    else if (why === "loading") refill(this.nothing, el("p.pad.muted", {}, "–"));
    else if (why === "plain") refill(this.nothing, healthy());
    else if (why === "filtered") refill(this.nothing, noMatch(this.source.showAll));
  }
}

/** @param {Group} group */
function groupBox(group) {
  return el(
    "div",
    { role: "group", "aria-label": group.title },
    el(
      "div.grouphead",
      { role: "presentation" },
      el("span.strong", {}, group.title),
      el("span.muted"),
      el("span.micro", {}, group.note),
    ),
  );
}

function healthy() {
  return el(
    "div.pad.healthy",
    {},
    el("h2", {}, icon("check"), " No open incidents"),
    el(
      "p.soft",
      {},
      "Rules check every step of every run. Alerts that belong together appear here as one incident. ",
    ),
    el(
      "p.soft.then",
      {},
      "Who gets notified: ",
      el("a.link", { href: "/routes" }, "routes"),
      " and ",
      el("a.link", { href: "/channels" }, "channels"),
      ".",
    ),
  );
}

/** @param {() => void} showAll */
function noMatch(showAll) {
  return el(
    "div.pad",
    {},
    el("p.soft", {}, "No incident matches this filter."),
    el("button.btn.then", { type: "button", onclick: showAll }, "Show all open incidents"),
  );
}
