/** Comparing runs: a common x axis, the difference to a baseline, the settings that differ. */

import { mostIn } from "./bucketnote.js";
import { flatten } from "../flatten.js";
import { xMetric } from "../views/xaxis.js";
import { withRail } from "./axis.js";
import { at, finite, thin } from "./buckets.js";
import { marksOf, mergeMarks } from "./marks.js";
import { clip, clipped, envelopeOf, joined, leftOut, linesOf, MARK_PX, railsOf } from "./picture.js";
import { metricAxis } from "./metricaxis.js";
import { stretches } from "./series.js";
import { moments, STEPS, timeline } from "./timeaxis.js";
import { axisPlan } from "./valueaxis.js";

/**
 * @typedef {import("./timeaxis.js").Timeline} Timeline
 * @typedef {import("./picture.js").Line} Line
 * @typedef {import("./picture.js").Outline} Outline
 */
/**
 * @typedef {{ id?: string, layers: Layer[], ink: string, dash: string, line: Timeline }} Overlaid one run in
 *   one panel
 */

/**
 * Bucket width in pixels for up to this many runs. With more runs, lines overlap and every update costs more.
 */
const WIDTHS = /** @type {const} */ ([
  [2, 1],
  [8, 2],
  [30, 4],
  [100, 8],
  [Infinity, 12],
]);
/**
 * Buckets requested for each of this many runs. This limits the page's memory to that of about thirty full
 * runs.
 */
const BUCKETS = /** @type {const} */ ([
  [30, 800],
  [100, 400],
  [300, 200],
  [Infinity, 100],
]);

/**
 * @param {readonly (readonly [number, number])[]} table
 * @param {number} runs
 */
const forSoMany = (table, runs) => (table.find(([most]) => runs <= most) ?? table[table.length - 1])[1];

/**
 * @param {number} runs of a comparison
 * @returns {number} buckets of each
 */
export const bucketsFor = (runs) => forSoMany(BUCKETS, runs);

/**
 * @param {number} lines in one chart
 * @returns {number} pixels of each bucket
 */
export const pixelsFor = (lines) => forSoMany(WIDTHS, lines);

/** Lines in one trace. */
const MOST_MERGED = 12;

/** Names under which scripts log how much data the model has seen. */
const TOKENS = /(^|[/_])((num_|n_|consumed_|total_)?tokens|tokens_seen|(consumed_)?samples|examples)$/i;

/**
 * Return the series that counts tokens: the shortest matching name.
 *
 * @param {string[]} names
 * @returns {string | null}
 */
export const tokenSeries = (names) =>
  names.filter((name) => TOKENS.test(name)).sort((a, b) => a.length - b.length || (a < b ? -1 : 1))[0] ??
  null;

/**
 * @param {import("../views/xaxis.js").XKind} kind
 * @param {Layer[]} loss layers with steps and times
 * @param {Layer[][]} along of the metric that is the axis, the finest first
 * @returns {Timeline | null} null: this run has no such axis
 */
export function alignment(kind, loss, along) {
  if (kind === "step") return STEPS;
  if (kind === "relative" || kind === "wall") {
    return loss.some((layer) => layer.x.length) ? timeline(kind, moments([loss])) : null;
  }
  const name = xMetric(kind);
  if (name !== null) {
    const known = along.some((layers) => layers.some((layer) => layer.last.some(Number.isFinite)));
    return known ? metricAxis(name, along) : null;
  }
  const clock = counted(along[along.length - 1] ?? []);
  return clock.steps.length < 2
    ? null
    : {
        ...timeline("wall", { steps: clock.steps, times: clock.times }),
        kind: "metric",
        title: "tokens",
        ticks: () => null,
        words: () => "",
        project: (layer) => byCount(layer, clock),
      };
}

/**
 * Steps and the count at each, both ascending.
 *
 * @param {Layer[]} layers
 */
function counted(layers) {
  const points = stretches(layers)
    .filter((part) => !part.faint)
    .flatMap(({ layer, from, to }) =>
      layer.x
        .map((step, i) => /** @type {[number, number]} */ ([step, layer.last[i]]))
        .filter(([step, count]) => step >= from && step <= to && Number.isFinite(count)),
    );
  const steps = /** @type {number[]} */ ([]);
  const times = /** @type {number[]} */ ([]);
  for (const [step, count] of points.sort((a, b) => a[0] - b[0])) {
    if (steps.length && (step <= steps[steps.length - 1] || count <= times[times.length - 1])) continue;
    steps.push(step);
    times.push(count);
  }
  return { steps, times };
}

/**
 * Return `layer` with counts in place of steps.
 *
 * @param {Layer} layer
 * @param {{ steps: number[], times: number[] }} clock
 * @returns {Layer}
 */
function byCount(layer, clock) {
  const { toX } = timeline("wall", clock);
  const x = layer.x.map(toX);
  return { ...layer, x, x1: x };
}

/**
 * Return the run's values minus the base's values at the same x. Where the base has no value there is no
 * difference. Non-finite values of the run are kept.
 *
 * @param {Layer} layer
 * @param {Layer[]} base in the same units, newest attempt first
 * @param {boolean} held hold each value until the next instead of interpolating
 * @returns {Layer}
 */
export function difference(layer, base, held) {
  const off = layer.x.map((x, i) =>
    held ? heldAt(base, layer.x1[i]) : valueAt(base, (x + layer.x1[i]) / 2),
  );
  const minus = (/** @type {number[]} */ column) => column.map((value, i) => value - off[i]);
  const known = off.map(Number.isFinite);
  const drop = (/** @type {number} */ i) =>
    known[i] ? layer.n[i] : layer.nan[i] + layer.pinf[i] + layer.ninf[i];
  return {
    ...layer,
    min: minus(layer.min),
    max: minus(layer.max),
    mean: minus(layer.mean),
    last: minus(layer.last),
    n: layer.n.map((_, i) => drop(i)),
  };
}

/**
 * Return the last value at or before `x`; NaN outside.
 *
 * @param {Layer[]} layers
 * @param {number} x
 */
function heldAt(layers, x) {
  const layer = layers.find((each) => each.x.length && each.x[0] <= x && x <= each.x1[each.x1.length - 1]);
  return layer ? layer.last[at(layer.x, x)] : NaN;
}

/**
 * Interpolate linearly between neighboring means; NaN outside.
 *
 * @param {Layer[]} layers
 * @param {number} x
 */
export function valueAt(layers, x) {
  for (const layer of layers) {
    const i = at(layer.x, x);
    const j = Math.min(layer.x.length - 1, i + 1);
    if (i < 0 || (x > layer.x1[layer.x.length - 1] && i === layer.x.length - 1)) continue;
    if (!finite(layer, i)) return NaN;
    const x0 = (layer.x[i] + layer.x1[i]) / 2;
    const x1 = (layer.x[j] + layer.x1[j]) / 2;
    if (x1 <= x0 || x <= x0 || !finite(layer, j)) return layer.mean[i];
    return layer.mean[i] + Math.min(1, (x - x0) / (x1 - x0)) * (layer.mean[j] - layer.mean[i]);
  }
  return NaN;
}

/**
 * Return one picture of many runs: the newest attempt of each, older attempts before it, its range drawn
 * faintly, and all non-finite values marked.
 *
 * @param {import("./picture.js").Drawing} drawing
 * @param {Overlaid[]} runs
 * @param {Overlaid | null} base show the difference to it instead of values
 * @param {[number, number]} range
 * @param {number} width
 * @param {boolean} wasLog
 * @param {import("./smooth.js").Smoothing | number} smoothing
 * @returns {import("./picture.js").Picture}
 */
export function overlay(drawing, runs, base, range, width, wasLog, smoothing) {
  const under = base
    ? partsOf(base)
        .map((part) => part.layer)
        .reverse()
    : null;
  const count = Math.max(50, Math.round(width / pixelsFor(runs.length)));
  const parts = runs
    .filter((run) => run !== base)
    .flatMap(partsOf)
    .map((part) => ({
      ...part,
      left: part.layer.left,
      layer: thin(
        under ? difference(part.layer, under, Boolean(drawing.steps)) : part.layer,
        range[0],
        range[1],
        count,
      ),
    }));
  const how = base ? { ...drawing, axis: /** @type {const} */ ("linear"), zero: false } : drawing;
  const picture = composed(
    how,
    parts,
    parts.map((part) => part.layer),
    range,
    width,
    wasLog,
    smoothing,
  );
  return { ...picture, left: leftOut(parts, runs[0]?.line.without ?? "") };
}

/**
 * Return the picture of these lines, each over its band.
 *
 * @param {import("./picture.js").Drawing} how
 * @param {(import("./picture.js").Part & { id?: string, full?: boolean[], planned?: Layer })[]} parts
 *   full: where the line is not thin; planned: instead of its layer for the choice of the axis
 * @param {Layer[]} marked whose non-finite values are marked
 * @param {[number, number]} range
 * @param {number} width
 * @param {boolean} wasLog
 * @param {import("./smooth.js").Smoothing | number} smoothing
 * @returns {import("./picture.js").Picture}
 */
export function composed(how, parts, marked, range, width, wasLog, smoothing) {
  const bare = axisPlan(
    how,
    parts.map((part) => part.planned ?? part.layer),
    range,
    wasLog,
  );
  const apart = ((range[1] - range[0]) / Math.max(1, width)) * MARK_PX;
  const marks = mergeMarks(
    marked.flatMap((layer) => marksOf(layer, bare.log, range[0], range[1])),
    apart,
  );
  const rails = railsOf(marks, false);
  const plan = withRail(bare, rails.top, rails.bottom);
  const floor = plan.log ? 10 ** plan.range[0] : null;
  const lines = parts.flatMap((part) =>
    linesOf(part, how, plan.log, smoothing).map((line) => ({ ...line, id: part.id, full: part.full })),
  );
  return clipped(bare, parts, apart, {
    lines: alike(lines.flatMap(({ full, ...line }) => (full ? inTwo(line, full) : [line]))),
    owned: owned(lines, Boolean(how.steps)),
    envelope: { x: [], y: [] },
    shades: shadesOf(parts.map((part) => ({ ...envelopeOf(part.layer, floor), ink: part.ink }))),
    marks,
    clipped: [],
    rails,
    skips: [],
    plan,
    range,
    steps: Boolean(how.steps),
    empty: !parts.length,
    drawing: how,
    most: mostIn(parts.map((part) => part.layer)),
  });
}

/**
 * Split a line in two: thin where one end of a segment is not full.
 *
 * @param {Line} line
 * @param {boolean[]} full by point
 * @returns {Line[]}
 */
function inTwo(line, full) {
  const thin = full.map((is, i) => !is || full[i - 1] === false || full[i + 1] === false);
  const keep = (/** @type {boolean[]} */ which) => line.y.map((value, i) => (which[i] ? value : NaN));
  return thin.includes(true)
    ? [
        { ...line, y: keep(full) },
        { ...line, y: keep(thin), faint: true },
      ]
    : [line];
}

/**
 * Return the lines by run, to find and highlight the one under the pointer.
 *
 * @param {(import("./picture.js").Line & { id?: string })[]} lines
 * @param {boolean} held
 */
const owned = (lines, held) =>
  lines
    .filter((line) => !line.raw)
    .map(({ id = "", x, y, ink = "", dash = "" }) => ({ id, x, y, ink, dash, held }));

/**
 * Return the visible parts of a run, oldest attempt first.
 *
 * @param {Overlaid} run
 */
export const partsOf = ({ id, layers, ink, dash, line }) =>
  stretches(layers)
    .filter((part) => !part.faint)
    .map(({ layer, from, to }) => ({
      faint: false,
      id,
      ink,
      dash,
      layer: line.project(clip(layer, from, to)),
    }))
    .sort((a, b) => a.layer.attempt - b.layer.attempt);

/**
 * Merge lines of the same style into traces with gaps, because each trace takes time. With more lines in a
 * trace, those of the last style would cover all others.
 *
 * @param {Line[]} lines
 * @returns {Line[]}
 */
function alike(lines) {
  /** @type {Map<string, Line & { merged: number }>} the newest trace of each style */
  const found = new Map();
  /** @type {Line[]} */
  const traces = [];
  for (const line of lines) {
    const lone = line.y.filter(Number.isFinite).length < 2;
    const key = [line.ink, line.dash, line.faint, line.raw, lone].join();
    const same = found.get(key);
    if (same && same.merged++ < MOST_MERGED) append(same, line);
    else {
      const trace = { ...line, x: [...line.x], y: [...line.y], lone, merged: 1 };
      found.set(key, trace);
      traces.push(trace);
    }
  }
  return traces;
}

/**
 * One range for each color.
 *
 * @param {import("./picture.js").Shade[]} shades
 * @returns {import("./picture.js").Shade[]}
 */
function shadesOf(shades) {
  const inks = [...new Set(shades.map((shade) => shade.ink))];
  return inks.map((ink) => ({ ...joined(shades.filter((shade) => shade.ink === ink)), ink }));
}

/**
 * @param {Outline} to
 * @param {Outline} from after a gap
 */
function append(to, from) {
  to.x.push(NaN, ...from.x);
  to.y.push(NaN, ...from.y);
}

/**
 * Return the run whose line passes nearest to a point of a panel within `reach`, or null.
 *
 * @param {import("./picture.js").Owned[]} lines
 * @param {number} x in units of the axis
 * @param {(value: number) => number} away distance in pixels between a value and the pointer
 * @param {number} reach pixels
 * @returns {string | null}
 */
export function nearest(lines, x, away, reach) {
  const [first] = byDistance(lines, x, away);
  return first && first.off <= reach ? first.id : null;
}

/**
 * Return the runs whose lines are drawn at `x`, nearest to the pointer first; of equally near ones, the one
 * that is drawn last, on top.
 *
 * @param {import("./picture.js").Owned[]} lines
 * @param {number} x in units of the axis
 * @param {(value: number) => number} away distance in pixels between a value and the pointer
 * @returns {{ id: string, off: number }[]}
 */
export function byDistance(lines, x, away) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const line of [...lines].reverse()) {
    const off = Math.abs(away(drawnAt(line, x)));
    if (off < (found.get(line.id) ?? Infinity)) found.set(line.id, off);
  }
  return [...found].map(([id, off]) => ({ id, off })).sort((a, b) => a.off - b.off);
}

/**
 * Return where a line is drawn at `x`, or NaN.
 *
 * @param {import("./picture.js").Owned} line
 * @param {number} x
 */
function drawnAt({ x: xs, y, held }, x) {
  const i = at(xs, x);
  const j = i + 1;
  if (i < 0 || (j >= xs.length && x > xs[i])) return NaN;
  return held || j >= xs.length ? y[i] : y[i] + ((x - xs[i]) / (xs[j] - xs[i])) * (y[j] - y[i]);
}

/**
 * Settings by name with the value of each run; undefined if a run has no such setting.
 *
 * @param {unknown[]} configs
 * @returns {{ key: string, values: (string | undefined)[], differs: boolean }[]} settings that differ come
 *   first
 */
export function settings(configs) {
  const flat = configs.map((config) => new Map(flatten(config)));
  const keys = [...new Set(flat.flatMap((each) => [...each.keys()]))].sort();
  const rows = keys.map((key) => {
    const values = flat.map((each) => each.get(key));
    return { key, values, differs: new Set(values).size > 1 };
  });
  return [...rows.filter((row) => row.differs), ...rows.filter((row) => !row.differs)];
}
