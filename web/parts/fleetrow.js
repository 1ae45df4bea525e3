/** A run as a row of the fleet: one node kept for the run's whole life; only what differs is written again. */

import { el, refill, say } from "../lib/dom.js";
import { number } from "../lib/exact.js";
import { ago, int, moment, num, pow2, powers, ruleTitle, span } from "../lib/format.js";
import { runAddress } from "../lib/route.js";
import { icon } from "./icons.js";
import { sparkline } from "./spark.js";

const VITALS = /** @type {const} */ ([
  { key: "loss", label: "loss", style: "c-loss", log: "auto", text: num },
  { key: "grad_norm", label: "grad norm", style: "c-gn", log: true, text: num },
  { key: "scale", label: "scale", style: "c-sc", log: true, text: pow2 },
  { key: "lr", label: "lr", style: "c-lr", log: false, text: num },
]);

export class FleetRow {
  /** @param {RunRow} row */
  constructor(row) {
    this.row = row;
    this.name = el("div.name");
    this.counts = el("div.c-counts");
    this.step = el("div.c-step");
    this.vitals = VITALS.map(() => el("div"));
    this.faults = el("div.c-faults");
    this.seen = el("div.c-seen.micro.nowrap");
    this.node = el("li.fl.run", { "data-run": row.id }, this.name, this.counts, this.step, el("div.vit", {}, ...this.vitals), this.faults, this.seen);
    /** @type {Map<HTMLElement, string>} */
    this.keys = new Map();
  }

  /** @param {RunRow} row @param {number} now */
  show(row, now) {
    this.row = row;
    this.node.className = `fl run ${row.health}`;
    this.#when(this.name, [row.state, row.name, row.project, row.tags, row.reason, row.attempt], () => nameCell(row));
    this.#when(this.counts, row.severities, () => [countsCell(row)]);
    this.#when(this.step, [row.last_step, row.planned_steps, row.steps_per_s, row.state, row.ended_ms], () => stepCell(row));
    VITALS.forEach((vital, i) => this.#when(this.vitals[i], [row.sparks?.[vital.key], row.last?.[vital.key], row.reason?.onset_step], () => vitalCell(this.vitals[i], row, vital)));
    this.#when(this.faults, [row.skipped, row.nonfinite], () => faultCell(row));
    this.tick(now);
  }

  /** Ages go on without news. @param {number} now */
  tick(now) {
    say(this.seen, ago(this.row.last_seen_ms, now));
    const exact = moment(this.row.last_seen_ms);
    if (this.seen.title !== exact) this.seen.title = exact;
  }

  /** @param {HTMLElement} cell @param {unknown} facts @param {() => import("../lib/dom.js").Kid[]} make */
  #when(cell, facts, make) {
    const key = JSON.stringify(facts);
    if (this.keys.get(cell) === key) return;
    this.keys.set(cell, key);
    const focused = cell.contains(document.activeElement);
    refill(cell, ...make());
    if (focused) /** @type {HTMLElement | null} */ (cell.querySelector("a"))?.focus();
  }
}

/** @param {RunRow} row */
function nameCell(row) {
  const attempt = row.attempt > 1 ? el("span.nowrap", {}, `· attempt ${row.attempt}`) : null;
  const link = el("a.clip", { href: runAddress(row.id), title: row.name }, row.name), top = el("div.row.top", {}, el("span.state", { class: row.state, title: row.state }, icon(row.state, row.state)), link);
  if (!row.reason) return [top, el("div.sub.clip", {}, el("span.clip", {}, row.project), ...row.tags.slice(0, 4).map((tag) => el("span.chip.tag", {}, tag)), attempt)];
  const why = powers(row.reason.summary);
  return [top, el("div.why.clip", { title: why }, why), el("div.sub.clip", {}, el("span.clip", {}, row.project), el("span", {}, "·"), el("span.mono.nowrap", { title: ruleTitle(row.reason.rule) }, row.reason.rule), attempt)];
}

/** @param {RunRow} row */
function countsCell(row) {
  const { critical = 0, warning = 0, info = 0 } = row.severities ?? {};
  const count = (/** @type {Severity} */ key, /** @type {number} */ n) => (n ? el("span", { class: `is-${key}` }, icon(key, `${n} ${key}`), n) : null);
  return el("div.counts", {}, count("critical", critical), count("warning", warning), count("info", info), critical + warning + info ? null : el("span.none", { "aria-label": "no open alert" }, "–"));
}

/** @param {RunRow} row @returns {import("../lib/dom.js").Kid[]} */
function stepCell(row) {
  const { last_step, planned_steps } = row, share = planned_steps && last_step !== null ? Math.min(100, (100 * (last_step + 1)) / planned_steps) : 0;
  return [el("div.nowrap", {}, int(last_step), planned_steps ? el("span.muted", {}, ` / ${int(planned_steps)}`) : null),
    el("div.prog", { "--p": `${share.toFixed(1)}%`, class: planned_steps ? "" : "open", role: "presentation" }, el("i")),
    el("div.micro.nowrap", {}, pace(row))];
}

/** "41.2/s · 15 min left", "stalled", "finished after 45 min". @param {RunRow} row */
function pace(row) {
  const { state, steps_per_s, planned_steps, last_step, ended_ms, created_ms } = row;
  if (state === "finished" || state === "failed") return ended_ms ? `${state} after ${span((ended_ms - created_ms) / 1000)}` : state;
  if (state !== "running") return state;
  if (!steps_per_s) return "running";
  const left = planned_steps && last_step !== null ? Math.max(0, planned_steps - last_step - 1) / steps_per_s : null;
  return `${num(steps_per_s, 3)}/s${left === null ? "" : ` · ${span(left)} left`}`;
}

/** @param {HTMLElement} cell @param {RunRow} row @param {typeof VITALS[number]} vital @returns {import("../lib/dom.js").Kid[]} */
function vitalCell(cell, row, vital) {
  const spark = row.sparks?.[vital.key], last = number(row.last?.[vital.key]);
  const reported = spark?.buckets.some((bucket) => bucket !== null);
  cell.className = `cell ${vital.style}${reported ? "" : " c-void"}`;
  if (!reported) return [el("span.none", { title: `no ${vital.label} was reported` }, "–")];
  const text = vital.text(last);
  return [el("div.v", {}, el("span.micro.phone", {}, vital.label), el("b", { class: /NaN|Inf/.test(text) ? "is-critical" : "" }, text)),
    sparkline(spark, { log: vital.log, onset: row.reason?.severity === "critical" || row.reason?.severity === "warning" ? row.reason.onset_step : null, label: `${vital.label}, last ${text}` })];
}

/** @param {RunRow} row @returns {import("../lib/dom.js").Kid[]} */
function faultCell(row) {
  if (!row.skipped && !row.nonfinite) return [el("span.none", { "aria-label": "no skipped step, no non-finite value" }, "–")];
  return [el("div.nowrap", {}, int(row.skipped), el("span.micro", {}, " skipped")), el("div.micro.nowrap", {}, `${int(row.nonfinite)} non-finite`)];
}
