/**
 * Turns layers into plain data for a chart: lines, envelope, marks and axis. plot.js converts it for Plotly.
 */

import { counted } from "../format.js";
import { withRail } from "./axis.js";
import { mostIn } from "./bucketnote.js";
import { finite, thin } from "./buckets.js";
import { clippedOf, cutLine, cutOutline } from "./clipped.js";
import { marksOf, mergeMarks, skippedSteps } from "./marks.js";
import { leading, rankIn, rankRange } from "./ranks.js";
import { stretches } from "./series.js";
import { smooth } from "./smooth.js";
import { STEPS } from "./timeaxis.js";
import { axisPlan } from "./valueaxis.js";

/**
 * @typedef {"auto" | "linear" | "log" | "log2"} AxisKind
 * @typedef {[number | null, number | null]} Limits smallest and largest value on an axis; null: automatic
 * @typedef {{ axis: AxisKind, steps?: boolean, zero?: boolean, ignore?: boolean, limits?: Limits }} Drawing
 *   how a panel draws: steps = hold each value until the next; ignore = outliers don't widen the axis
 * @typedef {{ smooth?: number | import("./smooth.js").Smoothing, older?: number[], ranks?: string,
 *   timeline?: import("./timeaxis.js").Timeline, beside?: Beside[] }} Look what the user chose: weight of an
 *   average or a kind of smoothing, attempts shown in full, "band", "each" or a rank, the x axis; beside:
 *   other series in this chart
 * @typedef {{ layers: Layer[], ink: string, dash: string }} Beside
 * @typedef {{ x: number[], y: number[], faint: boolean, raw?: boolean, ink?: string, dash?: string, lone?:
 *   boolean }} Line raw: what lies behind a smoothed line; ink: a design token; lone: isolated points
 * @typedef {Outline & { ink?: string }} Shade
 * @typedef {{ id: string, x: number[], y: number[], held: boolean, ink: string, dash: string }} Owned a drawn
 *   line and its run
 * @typedef {{ x: number[], y: number[] }} Outline closed polygons separated by NaN
 * @typedef {{ lines: Line[], envelope: Outline, shades: Shade[], marks: Mark[], clipped:
 *   import("./clipped.js").Clipped[], rails: Rails, skips: number[], plan: AxisPlan, range: [number, number],
 *   steps: boolean, empty: boolean, drawing: Drawing, owned?: Owned[], means?:
 *   import("./groups.js").Mean[], most?: number, left?: string }} Picture owned: in a comparison; means: of
 *   its groups; most: values that one point stands for; left: says how many have no place on the x axis
 * @typedef {{ top: number, bottom: number }} Rails shares of the panel beyond the ends of the axis
 * @typedef {{ text: string, edge: number, middle: number }} RailLabel shares of the panel's height: where the
 *   values end, and the middle of the text
 */

/** A mark is nine pixels wide; marks closer than that are merged. */
export const MARK_PX = 9;
const SKIP_PX = 2;
/** Shares of the panel reserved for marks, if there are any. */
const RAIL = 0.2;
/** Where a label is between the edge of the panel and the axis: away from the axis, whose end has a tick. */
const LABEL_AT = 0.3;
/** Without marks: room for the line's own width, so that the edge doesn't cut it. */
const EDGE = 0.03;

/**
 * @param {Layer} layer
 * @param {boolean} steps
 * @param {boolean} log
 * @returns {{ x: number[], y: number[] }}
 */
function lineOf(layer, steps, log) {
  const x = [];
  const y = [];
  for (let i = 0; i < layer.x.length; i++) {
    const value = steps ? layer.last[i] : layer.mean[i];
    x.push(steps ? layer.x[i] : (layer.x[i] + layer.x1[i]) / 2);
    y.push(Number.isFinite(value) && finite(layer, i) && !(log && value <= 0) ? value : NaN);
  }
  return { x, y };
}

/**
 * Return the min–max band as closed polygons, one for each unbroken range; on a log axis, values at or below
 * zero end at `floor`.
 *
 * @param {Layer} layer
 * @param {number | null} floor
 * @returns {Outline}
 */
export function envelopeOf(layer, floor) {
  /** @type {Outline} */
  const out = { x: [], y: [] };
  for (let start = 0; start < layer.x.length; start++) {
    let stop = start;
    while (stop < layer.x.length && drawable(layer, stop, floor)) stop++;
    if (stop > start) polygon(out, layer, start, stop, floor);
    start = stop;
  }
  return out;
}

/**
 * @param {Layer} layer
 * @param {number} i
 * @param {number | null} floor
 */
const drawable = (layer, i, floor) => finite(layer, i) > 0 && (floor === null || layer.max[i] > 0);

/**
 * @param {Outline} out
 * @param {Layer} layer
 * @param {number} start
 * @param {number} stop
 * @param {number | null} floor
 */
function polygon(out, layer, start, stop, floor) {
  let open = false;
  for (let i = start; i < stop; i++) open ||= layer.max[i] > layer.min[i];
  if (!open) return;
  if (out.x.length) {
    out.x.push(NaN);
    out.y.push(NaN);
  }
  const middle = (/** @type {number} */ i) => (layer.x[i] + layer.x1[i]) / 2;
  for (let i = start; i < stop; i++) {
    out.x.push(middle(i));
    out.y.push(layer.max[i]);
  }
  for (let i = stop - 1; i >= start; i--) {
    out.x.push(middle(i));
    out.y.push(floor === null ? layer.min[i] : Math.max(layer.min[i], floor));
  }
  out.x.push(middle(start));
  out.y.push(layer.max[start]);
}

/**
 * @typedef {{ layer: Layer, faint: boolean, ink?: string, dash?: string, hidden?: boolean, left?: number }}
 *   Part hidden: draw only its non-finite values; left: values without a place on the x axis
 */

/**
 * Return the parts of `layers` in the window, at one bucket per pixel.
 *
 * @param {Layer[]} layers
 * @param {[number, number]} range
 * @param {number} width
 * @param {Look} look
 * @returns {Part[]}
 */
function inSight(layers, [a, b], width, look) {
  const { project } = look.timeline ?? STEPS;
  const count = Math.max(50, width);
  const older = new Set(look.older);
  const main = new Map([...layers].reverse().map((layer) => [layer.attempt, layer.rank]));
  return stretches(layers).map(({ layer, from, to, faint }) => {
    const apart = main.get(layer.attempt) !== layer.rank;
    const shown = older.has(layer.attempt) && !apart;
    const placed = project(clip(layer, from, to));
    return {
      faint: faint && !shown,
      hidden: apart && look.ranks !== undefined && look.ranks !== "each",
      ink: shown ? attemptInk(layer.attempt) : undefined,
      left: placed.left,
      layer: thin(placed, a, b, count),
    };
  });
}

/**
 * Return the newest attempts of the other series of a chart.
 *
 * @param {[number, number]} range
 * @param {number} width
 * @param {Look} look
 * @returns {Part[]}
 */
const besideIt = (range, width, look) =>
  (look.beside ?? []).flatMap(({ layers, ink, dash }) =>
    inSight(layers, range, width, look)
      .filter((part) => !part.faint)
      .map((part) => ({ ...part, ink, dash })),
  );

/**
 * The color of an older attempt; the newest has the panel's color.
 *
 * @param {number} attempt
 */
export const attemptInk = (attempt) => `--run-${2 + ((attempt - 1) % 7)}`;

/**
 * Return the range over all ranks of the newest attempt, if it has more than one.
 *
 * @param {Layer[]} layers
 * @param {[number, number]} range
 * @param {number} width
 * @param {Look} look
 */
function bandOfRanks(layers, range, width, look) {
  if (look.ranks === undefined || look.ranks === "each") return null;
  const { project } = look.timeline ?? STEPS;
  return rankRange(
    layers.filter((layer) => layer.attempt === layers[0]?.attempt).map(project),
    range,
    Math.max(50, Math.round(width / 2)),
  );
}

/**
 * Return the buckets of `layer` that start in [from, to).
 *
 * @param {Layer} layer
 * @param {number} from
 * @param {number} to
 * @returns {Layer}
 */
export function clip(layer, from, to) {
  const keep = (/** @type {number[]} */ column) =>
    column.filter((_, i) => layer.x[i] >= from && (layer.x[i] < to || to === layer.x[layer.x.length - 1]));
  if (!layer.x.length || (layer.x[0] >= from && layer.x[layer.x.length - 1] < to)) return layer;
  return {
    attempt: layer.attempt,
    rank: layer.rank,
    x: keep(layer.x),
    x1: keep(layer.x1),
    min: keep(layer.min),
    max: keep(layer.max),
    mean: keep(layer.mean),
    last: keep(layer.last),
    n: keep(layer.n),
    nan: keep(layer.nan),
    pinf: keep(layer.pinf),
    ninf: keep(layer.ninf),
    t: keep(layer.t),
  };
}

/**
 * @param {Drawing} drawing
 * @param {Layer[]} given
 * @param {Layer[]} skipped the series `skipped`, if this panel shows it
 * @param {[number, number]} range
 * @param {number} width pixels
 * @param {boolean} wasLog
 * @param {Look} [look]
 * @returns {Picture}
 */
export function picture(drawing, given, skipped, range, width, wasLog, look = {}) {
  const layers = leading(given, rankIn(look.ranks));
  const parts = [...inSight(layers, range, width, look), ...besideIt(range, width, look)];
  const apart = (range[1] - range[0]) / Math.max(1, width);
  const { project, without } = look.timeline ?? STEPS;
  const band = bandOfRanks(layers, range, width, look);
  const drawn = parts.filter((part) => !part.hidden);
  const bare = axisPlan(
    drawing,
    [...drawn.map((part) => part.layer), ...(band ? [band] : [])],
    range,
    wasLog,
  );
  const marks = mergeMarks(
    parts.flatMap((part) => marksOf(part.layer, bare.log, range[0], range[1])),
    apart * MARK_PX,
  );
  const skips = skippedSteps(skipped.map(project), range[0], range[1], apart * SKIP_PX);
  const rails = railsOf(marks, skips.length > 0);
  const plan = withRail(bare, rails.top, rails.bottom);
  const floor = plan.log ? 10 ** plan.range[0] : null;
  return clipped(bare, parts, apart * MARK_PX, {
    lines: drawn.flatMap((part) => linesOf(part, drawing, plan.log, look.smooth ?? 0)),
    envelope: joined([
      ...(band ? [envelopeOf(band, floor)] : []),
      ...drawn.filter((part) => !part.faint && !part.ink).map((part) => envelopeOf(part.layer, floor)),
    ]),
    shades: drawn
      .filter((part) => part.ink)
      .map((part) => ({ ...envelopeOf(part.layer, floor), ink: part.ink })),
    marks,
    clipped: [],
    rails,
    skips,
    plan,
    range,
    steps: Boolean(drawing.steps),
    empty: !drawn.some((part) => !part.faint),
    drawing,
    most: mostIn(drawn.filter((part) => !part.faint).map((part) => part.layer)),
    left: leftOut(
      drawn.filter((part) => !part.faint),
      without,
    ),
  });
}

/**
 * Say how many values have no place on the x axis; "" if all have one.
 *
 * @param {{ left?: number }[]} parts
 * @param {string} without why: "without tokens"
 */
export function leftOut(parts, without) {
  const count = parts.reduce((sum, { left = 0 }) => sum + left, 0);
  return count ? `${counted(count, "value")} ${without} left out` : "";
}

/**
 * @param {Mark[]} marks
 * @param {boolean} skips
 * @returns {Rails}
 */
export function railsOf(marks, skips) {
  const low = (/** @type {Mark} */ { kind }) => kind === "zero" || kind === "negative";
  return {
    top: marks.some((mark) => !low(mark)) ? RAIL : EDGE,
    bottom: skips || marks.some(low) ? RAIL : EDGE,
  };
}

/**
 * Return what each row of marks beyond the axis shows, above the values first.
 *
 * @param {Pick<Picture, "marks" | "skips" | "rails">} picture
 * @returns {RailLabel[]}
 */
export function railLabels({ marks, skips, rails }) {
  const has = (/** @type {MarkKind[]} */ ...kinds) => marks.some((mark) => kinds.includes(mark.kind));
  const above = [has("nan") && "NaN", has("pinf", "ninf") && "Inf"].filter(Boolean).join("/");
  const below = has("zero", "negative") ? "≤ 0" : skips.length ? "skip" : "";
  return [
    { text: above, edge: 1 - rails.top, middle: 1 - rails.top * LABEL_AT },
    { text: below, edge: rails.bottom, middle: rails.bottom * LABEL_AT },
  ].filter((label) => label.text);
}

/**
 * Cut a picture at the ends of an axis that the reader limited, and mark what lies beyond.
 *
 * @param {AxisPlan} bare the axis without rails
 * @param {{ layer: Layer, hidden?: boolean }[]} parts
 * @param {number} apart marks closer than this are merged
 * @param {Picture} picture
 * @returns {Picture}
 */
export function clipped({ log, range: [a, b] }, parts, apart, picture) {
  const { drawing, range, steps } = picture;
  if (!drawing.ignore && !drawing.limits) return picture;
  const ends = /** @type {import("./clipped.js").Ends} */ (log ? [10 ** a, 10 ** b] : [a, b]);
  const found = parts
    .filter((part) => !part.hidden)
    .flatMap((part) => clippedOf(part.layer, ends, range, log));
  return {
    ...picture,
    lines: picture.lines.map((line) => cutLine(line, ends, steps, log)),
    ...(picture.owned ? { owned: picture.owned.map((line) => cutLine(line, ends, steps, log)) } : {}),
    envelope: cutOutline(picture.envelope, ends),
    shades: picture.shades.map((shade) => cutOutline(shade, ends)),
    clipped: mergeMarks(found, apart),
  };
}

/**
 * Return the line of a part; if smoothed, with the raw line behind it. Held values are never smoothed.
 *
 * @param {Part} part
 * @param {Drawing} drawing
 * @param {boolean} log
 * @param {number | import("./smooth.js").Smoothing} how
 * @returns {Line[]}
 */
export function linesOf(part, drawing, log, how) {
  const raw = {
    ...lineOf(part.layer, Boolean(drawing.steps), log),
    faint: part.faint,
    ...(part.ink ? { ink: part.ink } : {}),
    ...(part.dash ? { dash: part.dash } : {}),
  };
  const weak = typeof how === "number" ? !how : !how.amount;
  if (weak || drawing.steps || part.faint) return [raw];
  return [
    { ...raw, faint: true, raw: true },
    { ...raw, y: smooth(raw.y, how, raw.x) },
  ];
}

/**
 * @param {Outline[]} outlines
 * @returns {Outline}
 */
export function joined(outlines) {
  /** @type {Outline} */
  const out = { x: [], y: [] };
  for (const one of outlines.filter((each) => each.x.length)) {
    if (out.x.length) {
      out.x.push(NaN);
      out.y.push(NaN);
    }
    out.x.push(...one.x);
    out.y.push(...one.y);
  }
  return out;
}
