/** Rows of a comparison: values, alerts and settings of its runs and groups. */

import { valueAt } from "../lib/charts/compare.js";
import { summary } from "../lib/charts/groups.js";
import { readoutAt, scaleReadout } from "../lib/charts/readout.js";
import { reading } from "../lib/charts/series.js";
import { metricOf } from "../lib/charts/sweep.js";
import { number } from "../lib/exact.js";
import { num, pow2, ruleTitle } from "../lib/format.js";
import { dashOf, inkOf } from "../lib/views/compareview.js";
import { xMetric } from "../lib/views/xaxis.js";

/**
 * @typedef {import("./comparison.js").Comparison} Comparison
 * @typedef {{ name: string, title: string, read: (layer: Layer, i: number) =>
 *   import("../lib/charts/readout.js").Readout }} Shown a series, and how its values are written
 */
/**
 * @typedef {{ id: string, name: string, project: string, state: string, ink: string, dash: string, hidden:
 *   boolean, gone: boolean, note: string, alerts: AlertHead[], values: { title: string, text: string }[] }}
 *   CompareRow
 */

/**
 * Return one legend row per run, with its values at `x` or its newest values.
 *
 * @param {Comparison} data
 * @param {Shown[]} kinds
 * @param {number | null} x
 * @returns {CompareRow[]}
 */
export function rowsOf(data, kinds, x) {
  const news = newsByRun(data);
  const bases = new Map(kinds.map((kind) => [kind, data.baseOf(kind.name)]));
  return data.details().map(({ id, ink, dash, hidden, detail }) => {
    const member = data.members.get(id);
    return {
      id,
      name: detail?.name ?? id,
      project: detail?.project ?? "",
      state: detail?.state ?? "",
      ink,
      dash,
      hidden,
      gone: Boolean(member?.gone),
      note: noteOf(data, id),
      alerts: alertsOf(detail, news.get(id) ?? []),
      values: kinds.map((kind) => ({
        title: kind.title,
        text: read(data, id, kind, x, bases.get(kind) ?? null).text,
      })),
    };
  });
}

/**
 * Return what a row says besides its values.
 *
 * @param {Comparison} data
 * @param {string} id
 */
function noteOf(data, id) {
  const member = data.members.get(id);
  if (member?.gone) return "deleted or unknown";
  if (!member?.feed.ready || data.line(id)) return "";
  const { x } = data.source.view();
  return x === "tokens" ? "no token count" : xMetric(x) !== null ? `no ${xMetric(x)}` : "no steps yet";
}

/**
 * Return the alerts that the page received since, by run.
 *
 * @param {Comparison} data
 */
function newsByRun({ app }) {
  /** @type {Map<string, AlertHead[]>} */
  const found = new Map();
  for (const alert of app.alerts.all()) {
    found.set(alert.run_id, [...(found.get(alert.run_id) ?? []), alert]);
  }
  return found;
}

/**
 * Return the loaded alerts in their current state.
 *
 * @param {ComparedRun | null} detail
 * @param {AlertHead[]} news
 */
const alertsOf = (detail, news) => [
  ...new Map([...(detail?.alerts ?? []), ...news].map((alert) => [alert.id, alert])).values(),
];

/**
 * Return one row per group with the newest values of its visible runs.
 *
 * @param {Comparison} data
 * @param {Shown[]} kinds
 */
export function groupRowsOf(data, kinds) {
  const shown = new Set(data.source.view().runs.flatMap(({ id, hidden }) => (hidden ? [] : [id])));
  return (data.groups() ?? []).map(({ id, name, slot, runs }, _, groups) => {
    const visible = runs.filter((run) => shown.has(run));
    return {
      id,
      name,
      ink: inkOf(slot),
      dash: dashOf(slot, groups.length),
      runs: visible.length,
      hidden: runs.length - visible.length,
      failed: visible.filter((run) => data.members.get(run)?.detail?.state === "failed").length,
      values: kinds.map((kind) => ({
        title: kind.title,
        ...(data.many
          ? summaryOfSums(data.sums.of(kind.name).find(({ group }) => group.id === id)?.series, writer(kind))
          : summary(
              visible.flatMap((run) => newest(data, run, kind.name) ?? []),
              writer(kind),
            )),
      })),
    };
  });
}

/**
 * Return how values of a kind are written: loss scales as powers of two.
 *
 * @param {Pick<import("../panels/panel.js").PanelKind, "read">} kind
 */
const writer = ({ read }) => (read === scaleReadout ? pow2 : num);

/**
 * Return the newest values of a group that the server aggregated.
 *
 * @param {GroupSeries | undefined} series
 * @param {(mean: number | null) => string} write
 */
function summaryOfSums(series, write) {
  const { n = 0, mean = null, std = null, nonfinite = 0 } = series?.newest ?? {};
  return {
    text: mean !== null ? write(number(mean)) : nonfinite ? "not finite" : "–",
    soft: std ? `± ${num(number(std), 3)}` : "",
    bad: n && nonfinite ? `${nonfinite} of ${n + nonfinite} not finite` : "",
  };
}

/**
 * Return what the visible runs achieved, of those that are loaded.
 *
 * @param {Comparison} data
 * @returns {import("../lib/charts/sweep.js").Outcome[]}
 */
export function outcomesOf(data) {
  const { runs, metric, goal } = data.source.view();
  const news = newsByRun(data);
  return runs.flatMap(({ id, hidden }) => {
    const { detail, feed } = data.members.get(id) ?? {};
    if (hidden || !detail || !feed?.ready) return [];
    const { name, state, config } = detail;
    const trouble = troubleOf(state, alertsOf(detail, news.get(id) ?? []));
    return [{ id, name, state, config, trouble, value: metricOf(feed.set.get(metric), goal) }];
  });
}

/**
 * Return why the model of a run may be broken: the run failed, or has a critical alert that did not resolve.
 *
 * @param {string} state
 * @param {AlertHead[]} alerts
 */
function troubleOf(state, alerts) {
  const left = alerts.filter((alert) => alert.severity === "critical" && alert.state !== "resolved");
  const rules = [...new Set(left.map(({ rule }) => ruleTitle(rule)))].join(", ");
  const failed = state === "failed" ? "failed" : "";
  return [failed, rules && `critical: ${rules}`].filter(Boolean).join(", ");
}

/**
 * Return the newest value of a series, NaN and infinite ones included; null if it has none.
 *
 * @param {Comparison} data
 * @param {string} id
 * @param {string} name
 */
function newest(data, id, name) {
  const found = reading(data.members.get(id)?.feed.set.get(name) ?? [], null);
  return found ? found.layer.last[found.i] : null;
}

/**
 * Return the values of the visible runs at `x`, or their newest, of those that have one there.
 *
 * @param {Comparison} data
 * @param {Shown} kind
 * @param {number | null} x
 */
export function valuesAt(data, kind, x) {
  const base = data.baseOf(kind.name);
  return data.source
    .view()
    .runs.filter((run) => !run.hidden)
    .map(({ id, slot }) => ({
      id,
      name: data.members.get(id)?.detail?.name ?? id,
      ink: inkOf(slot),
      ...read(data, id, kind, x, base),
    }))
    .filter((row) => row.text !== "–");
}

/**
 * @param {Comparison} data
 * @param {string} id
 * @param {Shown} kind
 * @param {number | null} x
 * @param {import("../lib/charts/compare.js").Overlaid | null} base
 * @returns {{ text: string, soft: string, bad?: string, t?: number }} soft: what else is known, such as the
 *   range of a bucket; bad: its non-finite values; t: when it was recorded, in ms
 */
function read(data, id, kind, x, base) {
  const none = { text: "–", soft: "" };
  const member = data.members.get(id);
  const line = data.line(id);
  if (!member?.feed.ready || !line) return none;
  const layers = data.runs.layers(id, kind.name);
  const step = x === null ? null : Math.round(line.toStep(x));
  const { first, last } = member.feed.set;
  if (step !== null && step > (last ?? 0)) return none;
  if (x !== null && line.kind === "metric") {
    const [low, high] = line.extent(first ?? 0, last ?? 0);
    if (x < low || x > high) return none;
  }
  const found = reading(layers, step);
  if (!found) return none;
  const t = found.layer.t[found.i];
  if (!data.source.view().difference || !base || base.id === id) {
    const { value, soft, bad } = readoutAt(kind, found, step);
    return { text: value, soft, bad, t };
  }
  const off = valueAt(base.layers.map(base.line.project), x ?? line.toX(found.layer.x[found.i]));
  const here = found.layer.last[found.i];
  if (!Number.isFinite(off - here)) return none;
  return { text: `${here >= off ? "+" : ""}${num(here - off, 3)}`, soft: "", t };
}
