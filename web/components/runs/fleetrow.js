/** One run in the fleet table. The node lives as long as it is visible; only changes are written. */

import { el, focusIn, refill, say } from "../../browser/dom.js";
import { number } from "../../lib/exact.js";
import { shortened, valueText } from "../../lib/flatten.js";
import { ago, clock, int, moment, num, pow2, powers, ruleTitle, span } from "../../lib/format.js";
import { runAddress } from "../../lib/route.js";
import { metricOf, secondsLeft } from "../../lib/runs/columns.js";
import { icon } from "../icons.js";
import { sparkline } from "../spark.js";

const VITALS = /** @type {const} */ ([
  { key: "loss", label: "loss", style: "c-loss", log: "auto", text: num },
  { key: "grad_norm", label: "grad norm", style: "c-gn", log: true, text: num },
  { key: "scale", label: "scale", style: "c-sc", log: true, text: pow2 },
  { key: "lr", label: "lr", style: "c-lr", log: false, text: num },
]);

/**
 * @typedef {import("../../lib/runs/columns.js").Column} Column
 *
 * @typedef {{ pick: (id: string) => void, pin: (id: string) => void, archive: (row: RunRow) => void, config:
 *   import("../../lib/runs/columns.js").ConfigOf, loaded: (id: string, kind: string) => boolean }} RowActs
 *   loaded: whether a missing metric or setting is known to be missing
 */

export class FleetRow {
  /**
   * @param {RunRow} row
   * @param {Column[]} columns
   * @param {RowActs} acts
   */
  constructor(row, columns, acts) {
    this.row = row;
    this.seen = el("span");
    this.tick = /** @type {HTMLInputElement} */ (
      el("input", {
        type: "checkbox",
        "aria-label": `Select ${row.name}`,
        onchange: () => acts.pick(row.id),
      })
    );
    this.pinButton = el(
      "button.btn.bare.act",
      { type: "button", onclick: () => acts.pin(row.id) },
      icon("pin"),
    );
    this.boxButton = el(
      "button.btn.bare.act",
      { type: "button", onclick: () => acts.archive(this.row) },
      icon("box"),
    );
    this.config = acts.config;
    this.loaded = acts.loaded;
    /** @type {[Column, HTMLElement][]} */
    this.cells = columns.map((column) => [
      column,
      el("div", { role: "cell", class: column.own ? "c-own" : classOf(column.id) }),
    ]);
    const places = grouped(columns).map(({ kind, from, to }) => {
      const cells = this.cells.slice(from, to).map(([, cell]) => cell);
      return kind ? el("div", { class: kind, role: "presentation" }, ...cells) : cells[0];
    });
    this.node = el(
      "div.fl.run",
      { role: "row", "data-run": row.id },
      el("div.c-pick", { role: "cell" }, el("label.pickbox", {}, this.tick)),
      ...places,
      el("div.c-acts", { role: "cell" }, this.pinButton, this.boxButton),
    );
    /** @type {Map<HTMLElement, string>} */
    this.keys = new Map();
  }

  /**
   * Write what changed; calling it with the same row is cheap.
   *
   * @param {RunRow} row
   * @param {number} now
   * @param {{ picked: boolean, pinned: boolean }} mine
   */
  show(row, now, { picked, pinned }) {
    const same = this.row === row && this.keys.size > 0;
    this.row = row;
    this.node.classList.toggle("is-picked", picked);
    if (this.tick.checked !== picked) this.tick.checked = picked;
    name(this.pinButton, pinned ? `Unpin ${row.name}` : `Pin ${row.name} to the top`, pinned);
    name(this.boxButton, row.archived ? `Restore ${row.name}` : `Archive ${row.name}`, row.archived);
    if (same) return;
    for (const health of ["critical", "warning", "ok", "ended"]) {
      this.node.classList.toggle(health, row.health === health);
    }
    for (const [column, cell] of this.cells) {
      if (column.own) this.#own(column, cell, row);
      else this.#cell(column.id, cell, row);
    }
    this.age(now);
  }

  /**
   * @param {Column} column
   * @param {HTMLElement} cell
   * @param {RunRow} row
   */
  #own(column, cell, row) {
    const own = column.own ?? { kind: "last", name: "" };
    const { kind, name } = own;
    const value = kind === "config" ? this.config(row.id, name) : metricOf(row, own);
    const metric = kind === "config" ? undefined : row.metrics?.[name];
    const loading = value === undefined && !this.loaded(row.id, kind);
    this.#when(cell, [String(value), metric?.step, metric?.n, loading], () =>
      loading ? loadingCell(column.title) : ownCell(column.title, value, metric),
    );
  }

  /**
   * @param {string} id
   * @param {HTMLElement} cell
   * @param {RunRow} row
   */
  #cell(id, cell, row) {
    const vital = VITALS.find(({ key }) => key === id);
    const plain = PLAIN[id];
    if (vital) {
      this.#when(cell, [row.sparks?.[vital.key], row.last?.[vital.key], row.reason?.onset_step], () =>
        vitalCell(cell, row, vital),
      );
    } else if (id === "name") {
      this.#when(
        cell,
        [row.state, row.name, row.project, row.tags, row.reason, row.outcome, row.attempt, row.deletion_ms],
        () => nameCell(row),
      );
    } else if (id === "alerts") this.#when(cell, row.severities, () => [countsCell(row)]);
    else if (id === "step") {
      this.#when(cell, [row.last_step, row.planned_steps, row.steps_per_s, row.state, row.ended_ms], () =>
        stepCell(row),
      );
    } else if (id === "faults") this.#when(cell, [row.skipped, row.nonfinite], () => faultCell(row));
    else if (id === "seen") {
      if (!cell.firstChild) cell.append(this.seen);
    } else if (plain) {
      this.#when(cell, plain(row), () => [el("span.clip", { title: plain(row) }, plain(row))]);
    }
  }

  /**
   * Ages change without new data.
   *
   * @param {number} now
   */
  age(now) {
    say(this.seen, ago(this.row.last_seen_ms, now));
    const exact = moment(this.row.last_seen_ms);
    if (this.seen.title !== exact) this.seen.title = exact;
  }

  /**
   * @param {HTMLElement} cell
   * @param {unknown} values
   * @param {() => import("../../browser/dom.js").Kid[]} make
   */
  #when(cell, values, make) {
    const key = JSON.stringify(values);
    if (this.keys.get(cell) === key) return;
    this.keys.set(cell, key);
    const focused = cell.contains(document.activeElement);
    refill(cell, ...make());
    if (focused) focusIn(cell, "a");
  }
}

/**
 * Return which columns stand together on a narrow screen: neighbors that are vital signs, or a user's own.
 *
 * @param {Column[]} columns
 * @returns {{ kind: "" | "vit" | "own", from: number, to: number }[]}
 */
export function grouped(columns) {
  /** @type {{ kind: "" | "vit" | "own", from: number, to: number }[]} */
  const groups = [];
  columns.forEach((column, i) => {
    const kind = column.vital ? "vit" : column.own ? "own" : "";
    const last = groups[groups.length - 1];
    if (kind && last?.kind === kind) last.to = i + 1;
    else groups.push({ kind, from: i, to: i + 1 });
  });
  return groups;
}

/**
 * @param {HTMLElement} button
 * @param {string} text
 * @param {boolean} on
 */
function name(button, text, on) {
  if (button.title === text) return;
  button.title = text;
  button.setAttribute("aria-label", text);
  button.classList.toggle("on", on);
}

/** @type {Record<string, string>} */
const CLASSES = {
  name: "name",
  alerts: "c-counts",
  step: "c-step",
  faults: "c-faults",
  seen: "c-seen micro nowrap",
  loss: "",
  grad_norm: "",
  scale: "",
  lr: "",
};
/** @param {string} id */
const classOf = (id) => CLASSES[id] ?? "c-more clip";

/**
 * Columns with a word or a number.
 *
 * @type {Record<string, (row: RunRow) => string>}
 */
const PLAIN = {
  rate: (row) => (row.state === "running" ? num(row.steps_per_s, 3) : "–"),
  eta: (row) => {
    const left = secondsLeft(row);
    if (left === null) return "–";
    const end = row.last_seen_ms === null ? null : row.last_seen_ms + left * 1000;
    return `${span(left)} · ${clock(end).slice(0, 5)}`;
  },
  gpu: (row) => {
    const used = number(row.gpu_util);
    return row.state !== "running" || used === null ? "–" : `${num(used, 2)} %`;
  },
  attempt: (row) => (row.attempts > 1 ? `${row.attempt} of ${row.attempts}` : String(row.attempt)),
  state: (row) => row.state,
  host: (row) => row.host || "–",
  created: (row) => moment(row.created_ms),
};

/** @param {RunRow} row */
function nameCell(row) {
  const attempt = row.attempt > 1 ? el("span.nowrap", {}, `· attempt ${row.attempt}`) : null;
  const link = el("a.clip", { href: runAddress(row.id), title: row.name }, row.name);
  const top = el(
    "div.row.top",
    {},
    el("span.state", { class: row.state, title: row.state }, icon(row.state, row.state)),
    link,
  );
  if (row.deletion_ms) {
    return [
      top,
      el(
        "div.sub.clip",
        { title: moment(row.deletion_ms) },
        icon("trash"),
        ` will be deleted at ${clock(row.deletion_ms)} · `,
        el("span.clip", {}, row.project),
      ),
    ];
  }
  if (!row.reason) {
    return [
      top,
      el(
        "div.sub.clip",
        {},
        el("span.clip", {}, row.project),
        ...row.tags.slice(0, 4).map((tag) => el("span.chip.tag", {}, tag)),
        attempt,
      ),
    ];
  }
  const { outcome } = row;
  const why = powers(outcome?.severity ? outcome.text : row.reason.summary);
  return [
    top,
    el("div.why.clip", { title: why }, why),
    el(
      "div.sub.clip",
      {},
      el("span.clip", {}, row.project),
      el("span", {}, "·"),
      el("span.mono.nowrap", { title: ruleTitle(row.reason.rule) }, row.reason.rule),
      attempt,
    ),
  ];
}

/** @param {RunRow} row */
function countsCell(row) {
  const { critical = 0, warning = 0, info = 0 } = row.severities ?? {};
  const count = (/** @type {Severity} */ key, /** @type {number} */ n) =>
    n ? el("span", { class: `is-${key}` }, icon(key, `${n} ${key}`), n) : null;
  return el(
    "div.counts",
    {},
    count("critical", critical),
    count("warning", warning),
    count("info", info),
    critical + warning + info ? null : el("span.none", { "aria-label": "no open alerts" }, "–"),
  );
}

/**
 * @param {RunRow} row
 * @returns {import("../../browser/dom.js").Kid[]}
 */
function stepCell(row) {
  const { last_step, planned_steps } = row;
  const share =
    planned_steps && last_step !== null ? Math.min(100, (100 * (last_step + 1)) / planned_steps) : 0;
  return [
    el(
      "div.nowrap",
      {},
      int(last_step),
      planned_steps ? el("span.muted", {}, ` / ${int(planned_steps)}`) : null,
    ),
    el(
      "div.prog",
      { "--p": `${share.toFixed(1)}%`, class: planned_steps ? "" : "open", role: "presentation" },
      el("i"),
    ),
    el("div.micro.nowrap", {}, pace(row)),
  ];
}

/**
 * "41.2/s · 15 min left", "stalled", "finished after 45 min".
 *
 * @param {RunRow} row
 */
function pace(row) {
  const { state, steps_per_s, ended_ms, created_ms } = row;
  if (state === "finished" || state === "failed") {
    return ended_ms ? `${state} after ${span((ended_ms - created_ms) / 1000)}` : state;
  }
  if (state !== "running") return state;
  if (!steps_per_s) return "running";
  const left = secondsLeft(row);
  return `${num(steps_per_s, 3)}/s${left === null ? "" : ` · ${span(left)} left`}`;
}

/**
 * @param {HTMLElement} cell
 * @param {RunRow} row
 * @param {typeof VITALS[number]} vital
 * @returns {import("../../browser/dom.js").Kid[]}
 */
function vitalCell(cell, row, vital) {
  const spark = row.sparks?.[vital.key];
  const last = number(row.last?.[vital.key]);
  const reported = spark?.buckets.some((bucket) => bucket !== null) ?? false;
  cell.className = `cell ${vital.style}${reported ? "" : " c-void"}`;
  if (!spark || !reported) return [el("span.none", { title: `${vital.label} was not reported` }, "–")];
  const text = vital.text(last);
  return [
    el(
      "div.v",
      {},
      el("span.micro.phone", {}, vital.label),
      el("b", { class: /NaN|Inf/.test(text) ? "is-critical" : "" }, text),
    ),
    sparkline(spark, {
      log: vital.log,
      onset:
        row.reason?.severity === "critical" || row.reason?.severity === "warning"
          ? row.reason.onset_step
          : null,
      label: `${vital.label}, last ${text}`,
    }),
  ];
}

/** @param {string} title */
const loadingCell = (title) => [
  el("span.micro.phone.clip", {}, title),
  el("span.none", { title: "Loading", "aria-label": "loading", role: "img" }, "…"),
];

/**
 * @param {string} title
 * @param {unknown} value
 * @param {MetricSummary | undefined} metric
 * @returns {import("../../browser/dom.js").Kid[]}
 */
function ownCell(title, value, metric) {
  const label = el("span.micro.phone.clip", {}, title);
  if (value === undefined || value === null) return [label, el("span.none", {}, "–")];
  const exact = typeof value === "number" && metric ? String(value) : valueText(value);
  const text = typeof value === "number" && metric ? num(value) : String(shortened([exact])[0]);
  const broken = metric?.nonfinite ? `, ${int(metric.nonfinite)} of them not finite` : "";
  const of = metric ? `, ${int(metric.n)} values to step ${int(metric.step)}${broken}` : "";
  return [
    label,
    el(
      "b.clip",
      { title: `${exact}${of}`, class: metric && /NaN|Inf/.test(text) ? "is-critical" : "" },
      text,
    ),
  ];
}

/**
 * @param {RunRow} row
 * @returns {import("../../browser/dom.js").Kid[]}
 */
function faultCell(row) {
  if (!row.skipped && !row.nonfinite) {
    return [el("span.none", { "aria-label": "no skipped steps, no non-finite values" }, "–")];
  }
  return [
    el("div.nowrap", {}, int(row.skipped), el("span.micro", {}, " skipped")),
    el("div.micro.nowrap", {}, `${int(row.nonfinite)} non-finite`),
  ];
}
