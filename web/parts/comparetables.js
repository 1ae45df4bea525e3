/** Below and above the charts of a comparison: its runs with colours, values and alerts; the settings in which they differ. */

import { byGravity, isOpen } from "../lib/attention.js";
import { settings } from "../lib/compare.js";
import { dashOf, inkOf } from "../lib/compareview.js";
import { el, refill, say, svg } from "../lib/dom.js";
import { counted, int, powers, ruleTitle } from "../lib/format.js";
import { runAddress } from "../lib/route.js";
import { icon } from "./icons.js";

/** @typedef {import("./comparison.js").CompareRow} CompareRow */
/** @typedef {{ base: string | null, show: (id: string) => void, all: (shown: boolean) => void, point: (id: string | null) => void, pin: (id: string) => void, drop: (id: string) => void }} RunActs */
/** @typedef {{ id: string, slot: number, detail: RunDetail | null }} Described */

/** Above so many runs each is a line of the settings, not a column: a table twenty screens wide is read by nobody. */
const COLUMNS_AT_MOST = 8;
/** Cells of the settings that a page is filled with; those that differ come first. */
const MOST_CELLS = 20_000;

/** @param {HTMLElement} host @param {CompareRow[]} rows @param {RunActs | null} acts null: only the values moved */
export function runsTable(host, rows, acts) {
  if (!acts) return values(host, rows);
  const key = JSON.stringify([acts.base, rows.map(({ values: texts, alerts, ...row }) => [row, texts.map((each) => each.title), alerts.map((alert) => [alert.id, alert.state])])]);
  if (host.dataset.key !== key) {
    const focus = document.activeElement instanceof HTMLElement && host.contains(document.activeElement) ? document.activeElement.dataset.act : null;
    host.dataset.key = key;
    const heads = ["Run", ...(rows[0]?.values ?? []).map((each) => each.title), "Alerts", ""], table = el("table.plain-table.comparetable", {}, el("thead", {}, el("tr", {}, ...heads.map((head, i) => el("th", { scope: "col", class: i > 0 && i <= heads.length - 3 ? "n" : "" }, head || el("span.vh", {}, "Take away"), i === 0 && rows.length > 2 ? allShown(rows, acts) : null)))), el("tbody", {}, ...rows.map((row) => line(row, acts))));
    const point = (/** @type {Event} */ event) => acts.point(/** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("tr[data-run]"))?.dataset.run ?? null);
    for (const kind of ["pointerover", "focusin"]) table.addEventListener(kind, point);
    for (const kind of ["pointerleave", "focusout"]) table.addEventListener(kind, () => acts.point(null));
    const scrolled = host.querySelector(".scroll")?.scrollTop ?? 0, box = el("div.scroll.tall", { tabindex: "0", role: "region", "aria-label": "Runs, their values and alerts" }, table);
    refill(host, box);
    box.scrollTop = scrolled;
    if (focus) /** @type {HTMLElement | undefined} */ ([...host.querySelectorAll("[data-act]")].find((each) => /** @type {HTMLElement} */ (each).dataset.act === focus))?.focus();
  }
  values(host, rows);
}

/** Marks the run that is pointed at. @param {HTMLElement} host @param {string | null} id */
export function lightRow(host, id) {
  for (const row of /** @type {NodeListOf<HTMLElement>} */ (host.querySelectorAll("tr[data-run]"))) row.classList.toggle("is-lit", row.dataset.run === id);
}

/** @param {CompareRow[]} rows @param {RunActs} acts */
function allShown(rows, acts) {
  const none = rows.every((row) => row.hidden);
  return el("button.btn.bare.allbutton", { type: "button", "data-act": "all", onclick: () => acts.all(none) }, none ? "Show all" : "Hide all");
}

/** How the run's line looks. @param {number} slot */
const stroke = (slot) => svg("svg", { viewBox: "0 0 24 6", class: "stroke", "aria-hidden": "true", "--ink": `var(${inkOf(slot)})` }, svg("path", { d: "M0 3h24", "stroke-dasharray": dashOf(slot).replaceAll("px", "") || null }));

/** @param {HTMLElement} host @param {CompareRow[]} rows */
function values(host, rows) {
  const lines = [...host.querySelectorAll("tbody tr")];
  rows.forEach((row, i) => lines[i]?.querySelectorAll(".value").forEach((cell, k) => say(cell, row.values[k]?.text ?? "–")));
}

/** @param {CompareRow} row @param {RunActs} acts */
function line(row, acts) {
  const based = acts.base === row.id;
  const swatch = el("button.swatchbutton", { type: "button", "data-act": `show ${row.id}`, "aria-pressed": String(!row.hidden), "aria-label": `${row.hidden ? "Show" : "Hide"} ${row.name}`, title: row.hidden ? "Show" : "Hide", onclick: () => acts.show(row.id) }, stroke(row.slot));
  const pin = el("button.btn.bare.basebutton", { type: "button", "data-act": `base ${row.id}`, "aria-pressed": String(based), title: "Baseline: the others are measured against it", onclick: () => acts.pin(row.id) }, icon("pin"), based ? "baseline" : el("span.vh", {}, `Make ${row.name} the baseline`));
  return el("tr", { class: row.hidden ? "is-hidden" : "", "data-run": row.id }, el("th", { scope: "row" }, el("div.row.nowrapped", {}, swatch, row.state ? el("span.state", { class: row.state }, icon(row.state, row.state)) : null, el("a.clip.strong", { href: runAddress(row.id), title: row.name }, row.name), el("span.micro.nowrap", {}, row.note || row.project), pin)),
    ...row.values.map(() => el("td.n.value", {}, "–")), el("td", {}, alertSummary(row.alerts)), el("td.n", {}, el("button.btn.bare", { type: "button", "data-act": `drop ${row.id}`, "aria-label": `Take ${row.name} away`, onclick: () => acts.drop(row.id) }, icon("close"))));
}

/** The gravest alert in words, the others counted. @param {Alert[]} alerts */
function alertSummary(alerts) {
  const [first] = [...alerts].sort(byGravity), open = alerts.filter(isOpen).length;
  if (!first) return el("span.none", {}, "none");
  return el("a.alertsum", { href: runAddress(first.run_id, { at: first.onset_step, alert: first.id }), title: powers(first.summary) }, el("span", { class: isOpen(first) ? `is-${first.severity}` : "muted" }, icon(first.severity, first.severity)), ` ${ruleTitle(first.rule)} `, el("span.micro", {}, `at ${int(first.onset_step)} · ${open} open, ${counted(alerts.length, "alert")}`));
}

/** @param {HTMLElement} host @param {Described[]} runs @param {boolean} same @param {() => void} toggle @param {string | null} base */
export function settingsTable(host, runs, same, toggle, base) {
  const known = runs.filter((run) => run.detail), key = JSON.stringify([known.map(({ id, slot, detail }) => [id, slot, detail?.name, detail?.config]), same, base]);
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  const rows = settings(known.map(({ detail }) => detail?.config)), differing = rows.filter((row) => row.differs), wanted = same ? rows : differing;
  const shown = wanted.slice(0, Math.max(10, Math.floor(MOST_CELLS / Math.max(1, known.length)))), left = wanted.length - shown.length;
  const head = el("div.bar", {}, el("h2", {}, "Settings"), el("span.muted", {}, `${int(differing.length)} of ${int(rows.length)} differ${left ? `; ${int(left)} are left out` : ""}`), el("span.grow"), el("button.btn", { type: "button", "aria-pressed": String(same), onclick: toggle }, "Also those that agree"));
  if (!rows.length) return refill(host, head, el("p.muted", {}, "None of these runs has a config: tocsin.watch(..., config={...}) records it."));
  if (!shown.length) return refill(host, head, el("p.muted", {}, "Every setting agrees."));
  const lay = known.length > COLUMNS_AT_MOST ? aLineARun : aColumnARun;
  refill(host, head, el("div.scroll.tall", { tabindex: "0", role: "region", "aria-label": "Settings that differ" }, lay(known, shown, known.findIndex((run) => run.id === base))));
}

/** @typedef {ReturnType<typeof settings>} Setting */

/** @param {string | undefined} value @param {string | undefined} based @param {boolean} measured whether there is a baseline */
const cell = (value, based, measured) => el("td.mono", { class: measured && value !== based ? "differs" : "" }, value ?? el("span.none", {}, "not set"));

/** @param {Described[]} runs @param {Setting} rows @param {number} base */
const aColumnARun = (runs, rows, base) => el("table.plain-table.settingstable", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Setting"), ...runs.map((run) => el("th", { scope: "col" }, ...named(run))))),
  el("tbody", {}, ...rows.map((row) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, row.key)), ...row.values.map((value) => cell(value, row.values[base], base >= 0))))));

/** @param {Described[]} runs @param {Setting} rows @param {number} base */
const aLineARun = (runs, rows, base) => el("table.plain-table.settingstable.turned", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Run"), ...rows.map((row) => el("th", { scope: "col" }, el("code", {}, row.key))))),
  el("tbody", {}, ...runs.map((run, i) => el("tr", {}, el("th", { scope: "row" }, ...named(run)), ...rows.map((row) => cell(row.values[i], row.values[base], base >= 0))))));

/** @param {Described} run */
const named = ({ slot, detail }) => [el("i.swatch", { "--ink": `var(${inkOf(slot)})` }), ` ${detail?.name}`];
