/** The tables of a comparison: runs with colors, values and alerts; settings that differ. */

import { el, refill, say } from "../../browser/dom.js";
import { bySeverity, isOpen } from "../../lib/alerts/attention.js";
import { settings } from "../../lib/charts/compare.js";
import { shortened } from "../../lib/flatten.js";
import { counted, int, powers, ruleTitle } from "../../lib/format.js";
import { runAddress } from "../../lib/route.js";
import { icon } from "../icons.js";
import { strokeOf } from "./stroke.js";

/** @typedef {import("../../data/comparisonrows.js").CompareRow} CompareRow */
/**
 * @typedef {{ show: (id: string) => void, all: (shown: boolean) => void, point: (id: string | null) => void,
 *   pin: (id: string) => void, drop: (id: string) => void }} RunActs
 */
/** @typedef {{ id: string, ink: string, dash: string, detail: ComparedRun | null }} Described */

/**
 * With more runs than this, each run is a row of the settings table instead of a column, because the table
 * would be too wide.
 */
const COLUMNS_AT_MOST = 8;
/** The most settings cells on a page; settings that differ come first. */
const MOST_CELLS = 20_000;

/**
 * The table of runs: one row each with color, values and alerts. Only changed rows are rewritten, because
 * there may be a thousand runs.
 */
export class RunsTable {
  /** @type {Map<string, { key: string, node: HTMLElement, cells: Element[] }>} */
  #lines = new Map();
  #titles = "";
  #lit = "";

  /** @param {RunActs} acts */
  constructor(acts) {
    this.acts = acts;
    this.every = el("button.btn.bare.allbutton", {
      type: "button",
      "data-act": "all",
      onclick: () => acts.all(this.every.textContent === "Show all"),
    });
    this.heads = el("tr");
    this.body = el("tbody");
    const table = el("table.plain-table.comparetable", {}, el("thead", {}, this.heads), this.body);
    const point = (/** @type {Event} */ event) =>
      acts.point(
        /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("tr[data-run]"))
          ?.dataset.run ?? null,
      );
    for (const kind of ["pointerover", "focusin"]) table.addEventListener(kind, point);
    for (const kind of ["pointerleave", "focusout"]) table.addEventListener(kind, () => acts.point(null));
    this.node = el(
      "section.card",
      { "aria-label": "Runs" },
      el(
        "div.scroll.tall",
        { tabindex: "0", role: "region", "aria-label": "Runs, their values and alerts" },
        table,
      ),
    );
  }

  /**
   * @param {CompareRow[]} rows
   * @param {string | null} base
   */
  show(rows, base) {
    this.#head(rows);
    const held = /** @type {HTMLElement | null} */ (document.activeElement);
    const act = held && this.body.contains(held) ? (held.dataset.act ?? "") : "";
    const place = act ? [...this.body.children].indexOf(/** @type {Element} */ (held?.closest("tr"))) : -1;
    const gone = new Set(this.#lines.keys());
    rows.forEach((row, i) => {
      gone.delete(row.id);
      const { node } = this.#line(row, base === row.id);
      if (this.body.children[i] !== node) this.body.insertBefore(node, this.body.children[i] ?? null);
    });
    for (const id of gone) {
      this.#lines.get(id)?.node.remove();
      this.#lines.delete(id);
    }
    this.values(rows);
    if (act && held && !this.body.contains(held)) this.#focus(act, place);
  }

  /**
   * Update only the values.
   *
   * @param {CompareRow[]} rows
   */
  values(rows) {
    for (const row of rows) {
      this.#lines.get(row.id)?.cells.forEach((cell, k) => say(cell, row.values[k]?.text ?? "–"));
    }
  }

  /**
   * Highlight the run under the pointer.
   *
   * @param {string | null} id
   */
  light(id) {
    this.#lines.get(this.#lit)?.node.classList.remove("is-lit");
    this.#lit = id ?? "";
    this.#lines.get(this.#lit)?.node.classList.add("is-lit");
  }

  /** @param {CompareRow[]} rows */
  #head(rows) {
    const titles = ["Run", ...(rows[0]?.values ?? []).map((each) => each.title), "Alerts", ""];
    const key = titles.join("\n");
    say(this.every, rows.every((row) => row.hidden) ? "Show all" : "Hide all");
    this.every.hidden = rows.length < 3;
    if (key === this.#titles) return;
    this.#titles = key;
    this.#lines.clear();
    refill(this.body);
    refill(
      this.heads,
      ...titles.map((title, i) =>
        el(
          "th",
          { scope: "col", class: i > 0 && i <= titles.length - 3 ? "n" : "" },
          title || el("span.vh", {}, "Remove"),
          i ? null : this.every,
        ),
      ),
    );
  }

  /**
   * @param {CompareRow} row
   * @param {boolean} based
   */
  #line(row, based) {
    const { values, alerts, ...rest } = row;
    const key = JSON.stringify([based, rest, alerts.map((alert) => [alert.id, alert.state])]);
    const known = this.#lines.get(row.id);
    if (known?.key === key) return known;
    const node = line(row, based, this.acts);
    const made = { key, node, cells: [...node.querySelectorAll(".value")] };
    node.classList.toggle("is-lit", row.id === this.#lit);
    known?.node.replaceWith(node);
    this.#lines.set(row.id, made);
    return made;
  }

  /**
   * Focus the rewritten button that had the focus; if its run is gone, the button of the next run.
   *
   * @param {string} act
   * @param {number} place
   */
  #focus(act, place) {
    const rows = [...this.body.children];
    const of = (/** @type {Element | undefined} */ row, /** @type {(act: string) => boolean} */ fits) =>
      /** @type {HTMLElement | undefined} */ (
        [...(row?.querySelectorAll("[data-act]") ?? [])].find((each) =>
          fits(/** @type {HTMLElement} */ (each).dataset.act ?? ""),
        )
      );
    const same = of(this.body, (each) => each === act);
    const [kind] = act.split(" ");
    (same ?? of(rows[Math.min(place, rows.length - 1)], (each) => each.startsWith(`${kind} `)))?.focus();
  }
}

/**
 * @param {CompareRow} row
 * @param {boolean} based
 * @param {RunActs} acts
 */
function line(row, based, acts) {
  const swatch = el(
    "button.swatchbutton",
    {
      type: "button",
      "data-act": `show ${row.id}`,
      "aria-pressed": String(!row.hidden),
      "aria-label": `${row.hidden ? "Show" : "Hide"} ${row.name}`,
      title: row.hidden ? "Show" : "Hide",
      onclick: () => acts.show(row.id),
    },
    strokeOf(row.ink, row.dash),
  );
  const pin = el(
    "button.btn.bare.basebutton",
    {
      type: "button",
      "data-act": `base ${row.id}`,
      "aria-pressed": String(based),
      title: "Baseline: other runs are compared with it",
      onclick: () => acts.pin(row.id),
    },
    icon("pin"),
    based ? "baseline" : el("span.vh", {}, `Make ${row.name} the baseline`),
  );
  return el(
    "tr",
    { class: row.hidden ? "is-hidden" : "", "data-run": row.id },
    el(
      "th",
      { scope: "row" },
      el(
        "div.row.nowrapped",
        {},
        swatch,
        row.state ? el("span.state", { class: row.state }, icon(row.state, row.state)) : null,
        el("a.clip.strong", { href: runAddress(row.id), title: row.name }, row.name),
        el("span.micro.nowrap", {}, row.note || row.project),
        pin,
      ),
    ),
    ...row.values.map(() => el("td.n.value", {}, "–")),
    el("td", {}, alertSummary(row.alerts)),
    el(
      "td.n",
      {},
      el(
        "button.btn.bare",
        {
          type: "button",
          "data-act": `drop ${row.id}`,
          "aria-label": `Remove ${row.name}`,
          onclick: () => acts.drop(row.id),
        },
        icon("close"),
      ),
    ),
  );
}

/**
 * The most urgent alert by name, and the number of the others.
 *
 * @param {AlertHead[]} alerts
 */
function alertSummary(alerts) {
  const [first] = [...alerts].sort(bySeverity);
  const open = alerts.filter(isOpen).length;
  if (!first) return el("span.none", {}, "none");
  return el(
    "a.alertsum",
    {
      href: runAddress(first.run_id, { at: first.onset_step, alert: first.id }),
      title: powers(first.summary),
    },
    el(
      "span",
      { class: isOpen(first) ? `is-${first.severity}` : "muted" },
      icon(first.severity, first.severity),
    ),
    ` ${ruleTitle(first.rule)} `,
    el("span.micro", {}, `at ${int(first.onset_step)} · ${open} open, ${counted(alerts.length, "alert")}`),
  );
}

/** @type {WeakMap<ComparedRun, string>} */
const texts = new WeakMap();

/**
 * Name and config of a run as one key, cached by response, because there may be a thousand runs.
 *
 * @param {ComparedRun} detail
 */
function textOf(detail) {
  const known = texts.get(detail) ?? JSON.stringify([detail.name, detail.config]);
  texts.set(detail, known);
  return known;
}

/**
 * @param {HTMLElement} host
 * @param {Described[]} runs
 * @param {boolean} same
 * @param {() => void} toggle
 * @param {string | null} base
 */
export function settingsTable(host, runs, same, toggle, base) {
  const known = runs.filter((run) => run.detail);
  const key = JSON.stringify([
    known.map(({ id, ink, dash, detail }) => [id, ink, dash, detail && textOf(detail)]),
    same,
    base,
  ]);
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  const rows = settings(known.map(({ detail }) => detail?.config));
  const differing = rows.filter((row) => row.differs);
  const wanted = same ? rows : differing;
  const shown = wanted.slice(0, Math.max(10, Math.floor(MOST_CELLS / Math.max(1, known.length))));
  const left = wanted.length - shown.length;
  const head = el(
    "div.bar",
    {},
    el("h2", {}, "Settings"),
    el(
      "span.muted",
      {},
      `${int(differing.length)} of ${int(rows.length)} differ${left ? `; ${int(left)} not shown` : ""}`,
    ),
    el("span.grow"),
    el(
      "button.btn",
      { type: "button", "aria-pressed": String(same), onclick: toggle },
      "Show equal settings",
    ),
  );
  if (!rows.length) {
    return refill(
      host,
      head,
      el(
        "p.muted",
        {},
        "None of these runs has a config. Pass tocsin.watch(..., config={...}) to record it.",
      ),
    );
  }
  if (!shown.length) return refill(host, head, el("p.muted", {}, "All settings are equal."));
  const lay = known.length > COLUMNS_AT_MOST ? aLineARun : aColumnARun;
  refill(
    host,
    head,
    el(
      "div.scroll.tall",
      { tabindex: "0", role: "region", "aria-label": "Settings that differ" },
      lay(
        known,
        shown,
        known.findIndex((run) => run.id === base),
      ),
    ),
  );
}

/** @typedef {ReturnType<typeof settings>} Setting */

/**
 * @param {Setting[number]} row
 * @param {number} base which run is the baseline; -1: none
 */
function cells({ values }, base) {
  const shown = shortened(values);
  return values.map((value, i) =>
    el(
      "td.mono",
      {
        class: base >= 0 && value !== values[base] ? "differs" : "",
        title: value === undefined || shown[i] === value ? null : value,
      },
      shown[i] ?? el("span.none", {}, "not set"),
    ),
  );
}

/**
 * @param {Described[]} runs
 * @param {Setting} rows
 * @param {number} base
 */
const aColumnARun = (runs, rows, base) =>
  el(
    "table.plain-table.settingstable",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "col" }, "Setting"),
        ...runs.map((run) => el("th", { scope: "col" }, ...named(run))),
      ),
    ),
    el(
      "tbody",
      {},
      ...rows.map((row) =>
        el("tr", {}, el("th", { scope: "row" }, el("code", {}, row.key)), ...cells(row, base)),
      ),
    ),
  );

/**
 * @param {Described[]} runs
 * @param {Setting} rows
 * @param {number} base
 */
function aLineARun(runs, rows, base) {
  const columns = rows.map((row) => cells(row, base));
  return el(
    "table.plain-table.settingstable.turned",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "col" }, "Run"),
        ...rows.map((row) => el("th", { scope: "col" }, el("code", {}, row.key))),
      ),
    ),
    el(
      "tbody",
      {},
      ...runs.map((run, i) =>
        el("tr", {}, el("th", { scope: "row" }, ...named(run)), ...columns.map((column) => column[i])),
      ),
    ),
  );
}

/** @param {Described} run */
const named = ({ ink, dash, detail }) => [
  strokeOf(ink, dash),
  el("span.runname", { title: detail?.name }, String(detail?.name)),
];
