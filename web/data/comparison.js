/** The data of a comparison: one feed per run and a common x axis. */

import { alignment, bucketsFor, overlay, tokenSeries, valueAt } from "../lib/charts/compare.js";
import { groupKeys, groupsOf, overlayGroups, summary } from "../lib/charts/groups.js";
import { metricOf } from "../lib/charts/sweep.js";
import { readoutAt } from "../lib/charts/readout.js";
import { reading } from "../lib/charts/series.js";
import { STEPS } from "../lib/charts/timeaxis.js";
import { spanTicks } from "../lib/charts/timeticks.js";
import { VITAL_SERIES } from "../lib/charts/vitalsigns.js";
import { int, num, span } from "../lib/format.js";
import { dashOf, inkOf } from "../lib/views/compareview.js";
import { ApiError } from "./api.js";
import { Feed } from "./feed.js";
import { Lane } from "./requestqueue.js";

/** Requests at once. A browser opens six connections to a server, and the rest of the page needs some. */
const AT_ONCE = 4;
/** Up to this many runs, all details are refreshed regularly; above it, only those of active runs. */
const SOME = 30;
const ENDED = new Set(["finished", "failed"]);

/**
 * @typedef {import("../lib/views/compareview.js").CompareView} CompareView
 * @typedef {{ name: string, title: string, read: (layer: Layer, i: number) =>
 *   import("../lib/charts/readout.js").Readout }} Shown a series, and how its values are written
 * @typedef {{ feed: Feed, fine: Feed | null, finest: string, detail: RunDetail | null, alerts: Alert[], gone:
 *   boolean, asked: string, known: boolean }} Member known: whether its details were loaded
 */
/**
 * @typedef {{ id: string, name: string, project: string, state: string, slot: number, hidden: boolean, gone:
 *   boolean, note: string, alerts: Alert[], values: { title: string, text: string }[] }} CompareRow
 */

export class Comparison {
  /** @type {Map<string, Member>} */
  members = new Map();
  /** @type {Map<string, import("../lib/charts/timeaxis.js").Timeline | null>} */
  #lines = new Map();
  /** Inputs from which the cached lines were computed. */
  #kind = "";
  #lane = new Lane(AT_ONCE);
  /** Groups, cached because there may be a thousand configs. */
  #grouped = {
    by: "",
    details: /** @type {RunDetail[]} */ ([]),
    groups: /** @type {import("../lib/charts/groups.js").Group[]} */ ([]),
  };
  #asking = false;

  /**
   * @param {App} app
   * @param {{ view: () => CompareView, changed: () => void, known: () => void, failed: (error: Error) => void
   *   }} source
   */
  constructor(app, source) {
    this.app = app;
    this.source = source;
  }

  /** Whether requests for runs are waiting. */
  get loading() {
    return this.#lane.busy;
  }

  /** Runs whose series are loaded. */
  get ready() {
    return [...this.members.values()].filter((member) => member.feed.ready).length;
  }

  /** Load what the view shows now. */
  look() {
    const { runs } = this.source.view();
    const shown = new Set(runs.map((run) => run.id));
    for (const [id, member] of this.members) {
      if (!shown.has(id)) {
        member.feed.close();
        member.fine?.close();
        this.members.delete(id);
      }
    }
    for (const { id } of runs) if (!this.members.has(id)) this.#join(id);
    for (const id of this.members.keys()) this.#ask(id);
  }

  /** @param {string} id */
  #join(id) {
    const feed = new Feed(this.app.api, this.app.live, id, {
      changed: (_, grew) => {
        this.#lines.delete(id);
        this.#finer(id);
        if (grew) this.source.changed();
      },
      failed: (error) => this.#failed(id, error),
    });
    this.members.set(id, {
      feed,
      fine: null,
      finest: "",
      detail: null,
      alerts: [],
      gone: false,
      asked: "",
      known: false,
    });
    void this.#lane.run(() => this.#begin(id));
  }

  /**
   * Load the details of a run and then its series at once, so that the first of many runs are drawn early.
   *
   * @param {string} id
   */
  async #begin(id) {
    await this.#detail(id);
    const member = this.members.get(id);
    if (!member) return;
    member.known = true;
    await this.#series(id);
  }

  /** @param {string} id */
  async #detail(id) {
    if (!this.members.has(id)) return;
    try {
      const [detail, { items }] = await Promise.all([this.app.api.run(id), this.app.api.alerts({ run: id })]);
      const member = this.members.get(id);
      if (!member) return;
      Object.assign(member, { detail, alerts: items });
      this.#ask(id);
      this.source.known();
    } catch (error) {
      this.#failed(id, /** @type {Error} */ (error));
    }
  }

  /**
   * @param {string} id
   * @param {Error} error
   */
  #failed(id, error) {
    const member = this.members.get(id);
    if (!member) return;
    if (error instanceof ApiError && error.status === 404) {
      member.gone = true;
      return this.source.known();
    }
    this.source.failed(error);
  }

  /**
   * Load the series and window of one run.
   *
   * @param {string} id
   */
  #ask(id) {
    if (!this.members.get(id)?.known) return;
    this.#finer(id);
    void this.#lane.run(() => this.#series(id));
  }

  /**
   * Request only if series or buckets changed.
   *
   * @param {string} id
   */
  async #series(id) {
    const member = this.members.get(id);
    const view = this.source.view();
    if (!member || member.gone) return;
    const tokens = this.#tokens(id);
    const names = [...new Set([...VITAL_SERIES, view.metric, ...view.series, ...(tokens ? [tokens] : [])])];
    const buckets = bucketsFor(view.runs.length);
    const asked = JSON.stringify([names, buckets]);
    if (asked === member.asked) return;
    member.asked = asked;
    await member.feed.load(names, { from: null, to: null, buckets });
  }

  /**
   * Load finer buckets for the window. The coarse ones stay, because they map steps to the common axis.
   *
   * @param {string} id
   */
  #finer(id) {
    const member = this.members.get(id);
    const { x, from, to, series, runs } = this.source.view();
    if (!member || member.gone) return;
    const line = from === null || to === null ? null : this.line(id);
    const key = JSON.stringify([x, from, to, series]);
    if (!line) {
      if (from === null) this.#coarse(member);
      return;
    }
    if (key === member.finest) return;
    this.#coarse(member);
    member.finest = key;
    const fine = new Feed(this.app.api, this.app.live, id, {
      changed: (_, grew) => {
        if (grew) this.source.changed();
      },
      failed: (error) => this.#failed(id, error),
    });
    member.fine = fine;
    const window = {
      from: Math.floor(line.toStep(Number(from))),
      to: Math.ceil(line.toStep(Number(to))),
      buckets: bucketsFor(runs.length),
    };
    void this.#lane.run(() =>
      member.fine === fine ? fine.load([...VITAL_SERIES, ...series], window) : Promise.resolve(),
    );
  }

  /** @param {Member} member */
  #coarse(member) {
    member.fine?.close();
    member.fine = null;
    member.finest = "";
  }

  /**
   * Return the layers of a visible series at the finest resolution loaded.
   *
   * @param {string} id
   * @param {string} name
   */
  #layers(id, name) {
    const member = this.members.get(id);
    return (member?.fine?.ready ? member.fine : member?.feed)?.set.get(name) ?? [];
  }

  /** @param {string} id */
  #tokens(id) {
    return tokenSeries((this.members.get(id)?.detail?.series ?? []).map((each) => each.name));
  }

  /** Refresh what changes besides the series; skipped while the last refresh is running. */
  async refresh() {
    if (this.#asking) return;
    const due = [...this.members].filter(
      ([, member]) => this.members.size <= SOME || !member.detail || !ENDED.has(member.detail.state),
    );
    this.#asking = true;
    await Promise.all(due.map(([id]) => this.#lane.run(() => this.#detail(id))));
    this.#asking = false;
  }

  reload() {
    for (const member of this.members.values()) {
      for (const feed of [member.feed, member.fine]) if (feed) void this.#lane.run(() => feed.reload());
    }
  }

  close() {
    for (const member of this.members.values()) {
      member.feed.close();
      member.fine?.close();
    }
    this.members.clear(); // drop requests that have not started
  }

  /**
   * Return the x axis of a run, or null if it has none.
   *
   * @param {string} id
   */
  line(id) {
    const member = this.members.get(id);
    const { x } = this.source.view();
    if (x === "step") return STEPS;
    if (!member?.feed.ready) return null;
    if (this.#kind !== x) this.#lines.clear();
    this.#kind = x;
    if (!this.#lines.has(id)) {
      const { set } = member.feed;
      const tokens = this.#tokens(id);
      this.#lines.set(
        id,
        alignment(
          x,
          VITAL_SERIES.map((name) => set.get(name)).find((layers) =>
            layers.some((layer) => layer.x.length),
          ) ?? [],
          tokens ? set.get(tokens) : [],
        ),
      );
    }
    return this.#lines.get(id) ?? null;
  }

  /**
   * Return the visible runs with their colors.
   *
   * @param {string} name
   * @param {string[]} [also] these runs even if they are hidden
   */
  #overlaid(name, also = []) {
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
                layers: this.#layers(run.id, name),
                ink: inkOf(run.slot),
                dash: dashOf(run.slot),
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
    if (!group.length) return null;
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
    const { difference, smooth, band } = this.source.view();
    const groups = this.groups();
    if (groups) {
      const based = difference ? this.lineOf(String(this.base())) : null;
      const baseline = groups.find(({ id }) => id === based)?.runs ?? [];
      const drawn = new Map(this.#overlaid(name, baseline).map((run) => [run.id, run]));
      const gathered = groups.map((group) => ({
        group,
        ink: inkOf(group.slot),
        dash: dashOf(group.slot),
        members: group.runs.flatMap((id) => drawn.get(id) ?? []),
      }));
      return overlayGroups(drawing, gathered, based, band, range, width, wasLog, smooth);
    }
    const runs = this.#overlaid(name);
    const base = difference ? this.#baseOf(name) : null;
    return overlay(
      drawing,
      base ? runs.filter((run) => run.id !== base.id) : runs,
      base,
      range,
      width,
      wasLog,
      smooth,
    );
  }

  /**
   * Return the baseline's layers, whether it is visible or not.
   *
   * @param {string} name
   */
  #baseOf(name) {
    const id = this.base();
    const feed = id ? this.members.get(id)?.feed : null;
    const line = id ? this.line(id) : null;
    return id && feed?.ready && line
      ? { id, layers: this.#layers(id, name), ink: "--run-1", dash: "", line }
      : null;
  }

  /**
   * Return the window in units of the axis.
   *
   * @returns {[number, number]}
   */
  range() {
    const { from, to, runs } = this.source.view();
    if (from !== null && to !== null) return [from, to];
    let low = Infinity;
    let high = -Infinity;
    for (const { id } of runs) {
      const { first = null, last = null } = this.members.get(id)?.feed.set ?? {};
      const line = this.line(id);
      if (first === null || last === null || !line) continue;
      low = Math.min(low, line.toX(first));
      high = Math.max(high, line.toX(last));
    }
    return low < high ? [low, high + (high - low) * 0.02] : [0, 1];
  }

  /** @param {[number, number]} range */
  ticks(range) {
    return this.source.view().x === "relative" ? spanTicks(range) : null;
  }

  /** @param {number} x */
  label(x) {
    const { x: kind } = this.source.view();
    return kind === "relative" ? span(x / 1000) : `${int(x)} ${kind === "tokens" ? "tokens" : ""}`.trim();
  }

  /** Return all series of all runs. */
  names() {
    return [
      ...new Set(
        [...this.members.values()].flatMap(({ detail }) => (detail?.series ?? []).map((each) => each.name)),
      ),
    ].sort();
  }

  /** @param {string} id */
  nameOf(id) {
    const group = this.groups()?.find((each) => each.id === id);
    return group?.name ?? this.members.get(id)?.detail?.name ?? id;
  }

  /** Return the runs with the colors of their lines. */
  details() {
    const slots = this.#slots();
    return this.#detailed().map((run) => ({ ...run, slot: slots?.get(run.id) ?? run.slot }));
  }

  #detailed() {
    return this.source
      .view()
      .runs.map(({ id, slot }) => ({ id, slot, detail: this.members.get(id)?.detail ?? null }));
  }

  /**
   * Return one legend row per run, with its values at `x` or its newest values.
   *
   * @param {Shown[]} kinds
   * @param {number | null} x
   * @returns {CompareRow[]}
   */
  rows(kinds, x) {
    const slots = this.#slots();
    return this.source.view().runs.map(({ id, slot, hidden }) => {
      const member = this.members.get(id);
      const detail = member?.detail;
      const line = this.line(id);
      const ready = Boolean(member?.feed.ready);
      const note = member?.gone
        ? "deleted or unknown"
        : ready && !line
          ? this.source.view().x === "tokens"
            ? "no token count"
            : "no steps yet"
          : "";
      return {
        id,
        name: detail?.name ?? id,
        project: detail?.project ?? "",
        state: detail?.state ?? "",
        slot: slots?.get(id) ?? slot,
        hidden,
        gone: Boolean(member?.gone),
        note,
        alerts: this.#alerts(id),
        values: kinds.map((kind) => ({ title: kind.title, text: this.#read(id, kind, x).text })),
      };
    });
  }

  /** Return the color of the group of each run, or null if runs are not grouped. */
  #slots() {
    const pairs = this.groups()?.flatMap((group) =>
      group.runs.map((id) => /** @type {[string, number]} */ ([id, group.slot])),
    );
    return pairs ? new Map(pairs) : null;
  }

  /**
   * Return one row per group with the newest values of its visible runs.
   *
   * @param {Shown[]} kinds
   */
  groupRows(kinds) {
    const shown = new Set(this.source.view().runs.flatMap(({ id, hidden }) => (hidden ? [] : [id])));
    return (this.groups() ?? []).map(({ id, name, slot, runs }) => {
      const visible = runs.filter((run) => shown.has(run));
      return {
        id,
        name,
        slot,
        runs: visible.length,
        hidden: runs.length - visible.length,
        failed: visible.filter((run) => this.members.get(run)?.detail?.state === "failed").length,
        values: kinds.map((kind) => ({
          title: kind.title,
          ...summary(visible.flatMap((run) => this.newest(run, kind.name) ?? [])),
        })),
      };
    });
  }

  /**
   * Return what the visible runs achieved, of those that are loaded.
   *
   * @returns {import("../lib/charts/sweep.js").Outcome[]}
   */
  outcomes() {
    const { runs, metric, goal } = this.source.view();
    return runs.flatMap(({ id, hidden }) => {
      const { detail, feed } = this.members.get(id) ?? {};
      if (hidden || !detail || !feed?.ready) return [];
      const { name, state, config } = detail;
      return [{ id, name, state, config, value: metricOf(feed.set.get(metric), goal) }];
    });
  }

  /**
   * Return the newest value of a series, NaN and infinite ones included; null if it has none.
   *
   * @param {string} id
   * @param {string} name
   */
  newest(id, name) {
    const found = reading(this.members.get(id)?.feed.set.get(name) ?? [], null);
    return found ? found.layer.last[found.i] : null;
  }

  /**
   * Return the values of the visible runs at `x`, or their newest, of those that have one there.
   *
   * @param {Shown} kind
   * @param {number | null} x
   */
  valuesAt(kind, x) {
    return this.source
      .view()
      .runs.filter((run) => !run.hidden)
      .map(({ id, slot }) => ({ id, name: this.nameOf(id), ink: inkOf(slot), ...this.#read(id, kind, x) }))
      .filter((row) => row.text !== "–");
  }

  /**
   * Return the loaded alerts in their current state.
   *
   * @param {string} id
   */
  #alerts(id) {
    const all = [...(this.members.get(id)?.alerts ?? []), ...this.app.alerts.of(id)];
    return [...new Map(all.map((alert) => [alert.id, alert])).values()];
  }

  /**
   * @param {string} id
   * @param {Shown} kind
   * @param {number | null} x
   * @returns {{ text: string, soft: string, bad?: string, t?: number }} soft: what else is known, such as the
   *   range of a bucket; bad: its non-finite values; t: when it was recorded, in ms
   */
  #read(id, kind, x) {
    const none = { text: "–", soft: "" };
    const member = this.members.get(id);
    const line = this.line(id);
    if (!member?.feed.ready || !line) return none;
    const layers = this.#layers(id, kind.name);
    const step = x === null ? null : Math.round(line.toStep(x));
    const base = this.#baseOf(kind.name);
    if (step !== null && step > (member.feed.set.last ?? 0)) return none;
    const found = reading(layers, step);
    if (!found) return none;
    const t = found.layer.t[found.i];
    if (!this.source.view().difference || !base || base.id === id) {
      const { value, soft, bad } = readoutAt(kind, found, step);
      return { text: value, soft, bad, t };
    }
    const off = valueAt(base.layers.map(base.line.project), x ?? line.toX(found.layer.x[found.i]));
    const here = found.layer.last[found.i];
    if (!Number.isFinite(off - here)) return none;
    return { text: `${here >= off ? "+" : ""}${num(here - off, 3)}`, soft: "", t };
  }
}
