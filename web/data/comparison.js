/** What a comparison shows: a common x axis, lines of runs or groups, and their colors. */

import { alignment, overlay, tokenSeries } from "../lib/charts/compare.js";
import {
  faultsOfSums,
  groupKeys,
  groupsOf,
  meanOfSums,
  overlayGroups,
  overlayMeans,
} from "../lib/charts/groups.js";
import { logarithmic } from "../lib/charts/logaxis.js";
import { padded } from "../lib/charts/metricaxis.js";
import { STEPS, timeline } from "../lib/charts/timeaxis.js";
import { VITAL_SERIES } from "../lib/charts/vitalsigns.js";
import { counted, int, moment, num, span } from "../lib/format.js";
import { dashOf, inkOf, MOST_LISTED } from "../lib/views/compareview.js";
import { xMetric, xOf } from "../lib/views/xaxis.js";
import { ComparedRuns } from "./comparedruns.js";
import { GroupSums } from "./groupsums.js";

/** @typedef {import("../lib/views/compareview.js").CompareView} CompareView */

const LOG_STEPS = logarithmic(STEPS);
const SECOND_MS = 1000;

export class Comparison {
  /** @type {Map<string, import("../lib/charts/timeaxis.js").Timeline | null>} */
  #lines = new Map();
  /** Inputs from which the cached lines were computed. */
  #kind = "";
  /** Groups, cached because there may be a thousand configs. */
  #grouped = {
    by: "",
    details: /** @type {ComparedRun[]} */ ([]),
    groups: /** @type {import("../lib/charts/groups.js").Group[]} */ ([]),
  };

  /**
   * @param {App} app
   * @param {{ view: () => CompareView, changed: () => void, known: () => void, complete: () => void, failed:
   *   (error: Error) => void }} source
   */
  constructor(app, source) {
    this.app = app;
    this.source = source;
    this.runs = new ComparedRuns(app, {
      ...source,
      line: (id) => this.line(id),
      range: () => this.range(),
      reset: (id) => this.#lines.delete(id),
    });
    this.sums = new GroupSums(app.api, source);
  }

  /** Whether there are too many runs for a line each. */
  get many() {
    return this.source.view().runs.length > MOST_LISTED;
  }

  /** Whether a run has not ended. */
  get live() {
    return this.#known().some(({ state }) => state !== "finished" && state !== "failed");
  }

  /** Whether runs are still arriving. */
  get loading() {
    return this.runs.stream.busy;
  }

  /** What still has to arrive before everything is shown, in words; "" if nothing has. */
  get progress() {
    const members = [...this.members.values()];
    const there = members.filter(
      ({ detail, gone, feed }) => gone || (this.many ? detail : feed.ready),
    ).length;
    if (there < members.length) return `loading ${int(there)} of ${counted(members.length, "run")} …`;
    return this.sums.pending ? `aggregating ${counted(members.length, "run")} …` : "";
  }

  /**
   * Load the groups of too many runs, once all details have arrived.
   *
   * @param {boolean} [again]
   */
  wantSums(again = false) {
    if (!this.many || this.loading) return;
    const { runs, series, from, to } = this.source.view();
    const hidden = new Set(runs.flatMap((run) => (run.hidden ? [run.id] : [])));
    const groups = (this.groups() ?? []).map((group) => ({
      ...group,
      runs: group.runs.filter((id) => !hidden.has(id)),
    }));
    const axis = { x: this.#xOfSums(), from, to };
    void this.sums.want(groups, [...new Set([...VITAL_SERIES, ...series])], axis, again);
  }

  /** Return the x axis of groups that the server aggregates: tokens are one metric for all runs. */
  #xOfSums() {
    const { x } = this.source.view();
    const tokens = x === "tokens" ? tokenSeries(this.names()) : null;
    return x === "tokens" ? (tokens === null ? "step" : xOf(tokens)) : x;
  }

  /** Runs whose series are loaded. */
  get ready() {
    return [...this.members.values()].filter((member) => member.feed.ready).length;
  }

  get members() {
    return this.runs.members;
  }

  /**
   * Return the x axis of a run, or null if it has none.
   *
   * @param {string} id
   */
  line(id) {
    const member = this.members.get(id);
    const { x, logX } = this.source.view();
    if (x === "step") return logX ? LOG_STEPS : STEPS;
    if (this.many) return lineOfSums(x);
    if (!member?.feed.ready) return null;
    const kind = `${x} ${logX}`;
    if (this.#kind !== kind) this.#lines.clear();
    this.#kind = kind;
    if (!this.#lines.has(id)) {
      const { set } = member.feed;
      const clock = VITAL_SERIES.map((name) => set.get(name)).find((layers) =>
        layers.some((layer) => layer.x.length),
      );
      const line = alignment(x, clock ?? [], this.runs.axis(id));
      this.#lines.set(id, line && logX ? logarithmic(line) : line);
    }
    return this.#lines.get(id) ?? null;
  }

  /** Return the x axis of the first run that has one. */
  #anyLine() {
    const { runs } = this.source.view();
    return runs.reduce(
      (found, { id }) => found ?? this.line(id),
      /** @type {ReturnType<Comparison["line"]>} */ (null),
    );
  }

  /**
   * Return a position of the address as one on the axis, which may be logarithmic.
   *
   * @param {number} x
   */
  placed(x) {
    return this.source.view().logX ? Math.log10(x) : x;
  }

  /**
   * Return a position on the axis as one of the address.
   *
   * @param {number} x
   */
  natural(x) {
    return this.source.view().logX ? 10 ** x : x;
  }

  /**
   * Return the visible runs with their colors.
   *
   * @param {string} name
   * @param {string[]} [also] these runs even if they are hidden
   */
  #overlaid(name, also = []) {
    const lines = this.#lineCount();
    return this.source
      .view()
      .runs.filter((run) => !run.hidden || also.includes(run.id))
      .flatMap((run) => {
        const feed = this.members.get(run.id)?.feed;
        const line = this.line(run.id);
        return feed?.ready && line
          ? [
              {
                id: run.id,
                layers: this.runs.layers(run.id, name),
                ink: inkOf(run.slot),
                dash: dashOf(run.slot, lines),
                line,
              },
            ]
          : [];
      });
  }

  /** Return the baseline: the chosen run, else the first. */
  base() {
    const { base, runs } = this.source.view();
    return base ?? runs[0]?.id ?? null;
  }

  /** Return by what the loaded runs can be grouped. */
  groupKeys() {
    return groupKeys(this.#known());
  }

  /** Return the groups of the loaded runs, or null if runs are not grouped. */
  groups() {
    const { group } = this.source.view();
    if (!group.length && !this.many) return null;
    const details = this.#known();
    const by = JSON.stringify(group);
    const known = this.#grouped;
    const same =
      known.by === by &&
      known.details.length === details.length &&
      details.every((detail, i) => detail === known.details[i]);
    if (!same) this.#grouped = { by, details, groups: groupsOf(details, group) };
    return this.#grouped.groups;
  }

  #known() {
    return this.#detailed().flatMap(({ detail }) => (detail ? [detail] : []));
  }

  /**
   * Return the id of the line of a run: its group's, if runs are grouped.
   *
   * @param {string} run
   */
  lineOf(run) {
    return this.groups()?.find((group) => group.runs.includes(run))?.id ?? run;
  }

  /**
   * @param {string} name
   * @param {import("../lib/charts/picture.js").Drawing} drawing
   * @param {[number, number]} range
   * @param {number} width
   * @param {boolean} wasLog
   */
  picture(name, drawing, range, width, wasLog) {
    const { difference, smooth, smoothing, band } = this.source.view();
    const how = { kind: smoothing, amount: smooth };
    if (this.many) return this.#ofSums(name, drawing, range, width, wasLog);
    const groups = this.groups();
    if (groups) {
      const based = difference ? this.lineOf(String(this.base())) : null;
      const baseline = groups.find(({ id }) => id === based)?.runs ?? [];
      const drawn = new Map(this.#overlaid(name, baseline).map((run) => [run.id, run]));
      const gathered = groups.map((group) => ({
        group,
        ink: inkOf(group.slot),
        dash: dashOf(group.slot, groups.length),
        members: group.runs.flatMap((id) => drawn.get(id) ?? []),
      }));
      return overlayGroups(drawing, gathered, based, band, range, width, wasLog, how);
    }
    const runs = this.#overlaid(name);
    const base = difference ? this.baseOf(name) : null;
    return overlay(
      drawing,
      base ? runs.filter((run) => run.id !== base.id) : runs,
      base,
      range,
      width,
      wasLog,
      how,
    );
  }

  /**
   * @param {string} name
   * @param {import("../lib/charts/picture.js").Drawing} drawing
   * @param {[number, number]} range
   * @param {number} width
   * @param {boolean} wasLog
   */
  #ofSums(name, drawing, range, width, wasLog) {
    const { difference, smooth, smoothing, band } = this.source.view();
    const how = { kind: smoothing, amount: smooth };
    const base = difference ? this.lineOf(String(this.base())) : null;
    const lines = this.#lineCount();
    const found = this.sums.of(name);
    const means = found.map(({ group, series }) => meanOfSums(group, inkOf(group.slot), series, band));
    const marked = found.flatMap(({ group, series }) => (group.id === base ? [] : [faultsOfSums(series)]));
    const dashes = new Map(found.map(({ group }) => [group.id, dashOf(group.slot, lines)]));
    return overlayMeans(drawing, means, marked, dashes, base, range, width, wasLog, how);
  }

  /**
   * Return the baseline's layers, whether it is visible or not.
   *
   * @param {string} name
   * @returns {import("../lib/charts/compare.js").Overlaid | null}
   */
  baseOf(name) {
    const id = this.base();
    const feed = id ? this.members.get(id)?.feed : null;
    const line = id ? this.line(id) : null;
    return id && feed?.ready && line
      ? { id, layers: this.runs.layers(id, name), ink: "--run-1", dash: "", line }
      : null;
  }

  /**
   * Return the window in units of the axis.
   *
   * @returns {[number, number]}
   */
  range() {
    const { from, to, runs, logX } = this.source.view();
    if (from !== null && to !== null && (from > 0 || !logX)) return [this.placed(from), this.placed(to)];
    const answer = this.many ? this.sums.answer : null;
    let low = answer?.first ?? Infinity;
    let high = answer?.last ?? -Infinity;
    for (const { id } of runs) {
      const { first = null, last = null } = this.members.get(id)?.feed.set ?? {};
      const line = this.line(id);
      if (first === null || last === null || !line) continue;
      const [a, b] = line.extent(first, last);
      if (a < low) low = a;
      if (b > high) high = b;
    }
    if (logX || this.#anyLine()?.kind === "metric") return padded([low, high]);
    if (low === high) {
      const room = this.#anyLine()?.kind === "step" ? 1 : SECOND_MS;
      return [low - room, high + room];
    }
    return low < high ? [low, high + (high - low) * 0.02] : [0, 1];
  }

  /** What the x axis shows. */
  axis() {
    return this.#anyLine()?.title ?? "";
  }

  /** @param {[number, number]} range */
  ticks(range) {
    return this.#anyLine()?.ticks(range) ?? null;
  }

  /**
   * Say where a position on the axis is.
   *
   * @param {number} placed
   */
  label(placed) {
    const { x: kind } = this.source.view();
    const x = this.natural(placed);
    const metric = xMetric(kind);
    if (metric !== null) return `${metric} ${num(x)}`;
    if (kind === "relative") return span(x / 1000);
    if (kind === "wall") return moment(x);
    return kind === "tokens" ? `${int(x)} tokens` : `step ${int(x)}`;
  }

  /** Return all series of all runs. */
  names() {
    return [...new Set([...this.members.values()].flatMap(({ detail }) => detail?.names ?? []))].sort();
  }

  /** Return the series that any run reports; null as long as that is unknown. */
  reported() {
    const members = [...this.members.values()];
    const known = !this.many && !this.loading && members.length && members.every(({ detail }) => detail);
    return known ? new Set(this.names()) : null;
  }

  /** @param {string} id */
  nameOf(id) {
    const group = this.groups()?.find((each) => each.id === id);
    return group?.name ?? this.members.get(id)?.detail?.name ?? id;
  }

  /** Return the runs with the looks of their lines. */
  details() {
    const slots = this.#slots();
    const lines = this.#lineCount();
    return this.#detailed().map((run) => {
      const slot = slots?.get(run.id) ?? run.slot;
      return { ...run, ink: inkOf(slot), dash: dashOf(slot, lines) };
    });
  }

  /** Return how many lines a chart has at most. */
  #lineCount() {
    return this.groups()?.length ?? this.source.view().runs.filter((run) => !run.hidden).length;
  }

  #detailed() {
    return this.source
      .view()
      .runs.map((run) => ({ ...run, detail: this.members.get(run.id)?.detail ?? null }));
  }

  /** Return the color of the group of each run, or null if runs are not grouped. */
  #slots() {
    const pairs = this.groups()?.flatMap((group) =>
      group.runs.map((id) => /** @type {[string, number]} */ ([id, group.slot])),
    );
    return pairs ? new Map(pairs) : null;
  }
}

/**
 * Return the x axis of groups that the server aggregates: it has placed their values already.
 *
 * @param {import("../lib/views/xaxis.js").XKind} x not the step
 * @returns {import("../lib/charts/timeaxis.js").Timeline}
 */
const lineOfSums = (x) =>
  x === "relative" || x === "wall"
    ? timeline(x, { steps: [0, 1], times: [0, 1] })
    : { ...STEPS, kind: "metric", title: xMetric(x) ?? "tokens" };
