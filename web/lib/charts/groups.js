/** Groups of compared runs: one line for each group, the mean of its runs with a band. */

import { unpack } from "../exact.js";
import { flatten, numberOf } from "../flatten.js";
import { counted, dotted, num } from "../format.js";
import { at, finite, thin } from "./buckets.js";
import { composed, difference, partsOf, pixelsFor } from "./compare.js";

/**
 * @typedef {"std" | "range"} BandKind standard deviation, or smallest to largest value
 * @typedef {{ id: string, tags: string[], project: string, config: unknown }} Groupable
 * @typedef {{ id: string, name: string, slot: number, runs: string[] }} Group runs: ids
 * @typedef {{ group: Group, ink: string, dash: string, members: import("./compare.js").Overlaid[] }} Gathered
 *   members: the visible runs of the group that have an x axis
 * @typedef {{ id: string, name: string, ink: string, of: number, layer: Layer, lowest: number[]
 *   }} Mean the drawn line of a
 *   group; of: how many runs have this series; n of its buckets: how many of them are behind a value; lowest:
 *   of the runs, by bucket
 */

/** Start of the name of a config key among the group keys. */
const CONFIG = "config.";
/**
 * @param {string} key
 * @returns {string} as people read it
 */
export const keyName = (key) =>
  key === "project" ? "Project" : key === "tags" ? "Tags" : key.slice(CONFIG.length);
/** As many characters as a value has in the name of a group. */
const LONGEST = 40;

/**
 * Return by what these runs can be grouped: what differs between them.
 *
 * @param {Groupable[]} runs
 * @returns {{ key: string, groups: number }[]} groups: how many there would be
 */
export function groupKeys(runs) {
  const found = /** @type {Map<string, Set<string>>} */ (new Map());
  const read = reader(runs);
  const keys = ["project", "tags", ...new Set(runs.flatMap((run) => read.keys(run)))];
  for (const run of runs) {
    for (const key of keys) {
      const values = found.get(key) ?? new Set();
      found.set(key, values.add(read.value(run, key)));
    }
  }
  return [...found]
    .map(([key, values]) => ({ key, groups: values.size }))
    .filter(({ groups }) => groups > 1)
    .sort((a, b) => Number(a.groups === runs.length) - Number(b.groups === runs.length));
}

/**
 * Return the groups of runs that agree in all `keys`, ordered by their values.
 *
 * @param {Groupable[]} runs
 * @param {string[]} keys
 * @returns {Group[]}
 */
export function groupsOf(runs, keys) {
  const read = reader(runs);
  /** @type {Map<string, { name: string, runs: string[] }>} */
  const found = new Map();
  for (const run of runs) {
    const values = keys.map((key) => read.value(run, key));
    const id = JSON.stringify(values);
    const group = found.get(id) ?? {
      name: values.map((value, i) => named(keys[i], value)).join(", ") || "All runs",
      runs: [],
    };
    group.runs.push(run.id);
    found.set(id, group);
  }
  const { compare } = new Intl.Collator("en", { numeric: true });
  const order = (/** @type {string} */ a, /** @type {string} */ b) => {
    const [left, right] = /** @type {string[][]} */ ([JSON.parse(a), JSON.parse(b)]);
    const i = left.findIndex((value, k) => value !== right[k]);
    const apart = numberOf(left[i]) - numberOf(right[i]);
    return Number.isNaN(apart) ? compare(left[i] ?? "", right[i] ?? "") : apart;
  };
  return [...found].sort(([a], [b]) => order(a, b)).map(([id, group], slot) => ({ id, slot, ...group }));
}

/**
 * Return what reads the values of group keys. Tags that all runs have are left out.
 *
 * @param {Groupable[]} runs
 */
function reader(runs) {
  const flat = new Map(runs.map((run) => [run.id, new Map(flatten(run.config))]));
  const common = new Set(runs[0]?.tags.filter((tag) => runs.every((run) => run.tags.includes(tag))));
  return {
    keys: (/** @type {Groupable} */ run) => [...(flat.get(run.id)?.keys() ?? [])].map((key) => CONFIG + key),
    value: (/** @type {Groupable} */ run, /** @type {string} */ key) => {
      if (key === "project") return run.project;
      if (key === "tags") {
        const own = run.tags.filter((tag) => !common.has(tag));
        return own.sort().join(" ");
      }
      return flat.get(run.id)?.get(key.slice(CONFIG.length)) ?? "";
    },
  };
}

/**
 * @param {string} key
 * @param {string} value "": not set
 */
function named(key, value) {
  const text = value.length > LONGEST ? `${value.slice(0, LONGEST - 1)}…` : value;
  if (key === "tags") return text || "no tags";
  if (key === "project") return text;
  return text ? `${keyName(key)} = ${text}` : `${keyName(key)} not set`;
}

/**
 * Return one picture of all groups: the mean of each over its band, thin where runs are missing, and the
 * marks of all runs.
 *
 * @param {import("./picture.js").Drawing} drawing
 * @param {Gathered[]} groups
 * @param {string | null} base the group from which others are subtracted
 * @param {BandKind} band
 * @param {[number, number]} range
 * @param {number} width
 * @param {boolean} wasLog
 * @param {import("./smooth.js").Smoothing | number} smoothing
 * @returns {import("./picture.js").Picture}
 */
export function overlayGroups(drawing, groups, base, band, range, width, wasLog, smoothing) {
  const count = Math.max(50, Math.round(width / pixelsFor(groups.length)));
  const all = groups.map((each) => meanOf(each, range, count, Boolean(drawing.steps), band));
  const marked = groups
    .filter(({ group }) => group.id !== base)
    .flatMap(({ members }) => members.flatMap(partsOf))
    .map((part) => thin(part.layer, range[0], range[1], count));
  const dashes = new Map(groups.map(({ group, dash }) => [group.id, dash]));
  return overlayMeans(drawing, all, marked, dashes, base, range, width, wasLog, smoothing);
}

/**
 * Return one picture of the means of groups.
 *
 * @param {import("./picture.js").Drawing} drawing
 * @param {Mean[]} all
 * @param {Layer[]} marked whose non-finite values are marked
 * @param {Map<string, string>} dashes by group
 * @param {string | null} base the group from which others are subtracted
 * @param {[number, number]} range
 * @param {number} width
 * @param {boolean} wasLog
 * @param {import("./smooth.js").Smoothing | number} smoothing
 * @returns {import("./picture.js").Picture}
 */
export function overlayMeans(drawing, all, marked, dashes, base, range, width, wasLog, smoothing) {
  const held = Boolean(drawing.steps);
  const under = all.find((mean) => mean.id === base) ?? null;
  const means = all
    .filter((mean) => mean.of && mean !== under)
    .map((mean) => (under ? { ...mean, layer: difference(mean.layer, [under.layer], held) } : mean));
  const parts = means.map((mean) => ({
    id: mean.id,
    faint: false,
    ink: mean.ink,
    dash: dashes.get(mean.id) ?? "",
    layer: mean.layer,
    full: mean.layer.n.map((n) => n >= mean.of),
    planned: under ? mean.layer : positive(mean),
  }));
  const how = under ? { ...drawing, axis: /** @type {const} */ ("linear"), zero: false } : drawing;
  return { ...composed(how, parts, marked, range, width, wasLog, smoothing), means };
}

/**
 * Return the mean and the band of a group that the server aggregated.
 *
 * @param {Pick<Group, "id" | "name">} group
 * @param {string} ink
 * @param {GroupSeries} series
 * @param {BandKind} band
 * @returns {Mean}
 */
export function meanOfSums({ id, name }, ink, series, band) {
  const column = (/** @type {Packed} */ packed) => Array.from(unpack(packed));
  const [x, n, mean, std, min, max] = ["x", "n", "mean", "std", "min", "max"].map((key) =>
    column(series[/** @type {"x"} */ (key)]),
  );
  const none = x.map(() => 0);
  const spread = band === "std";
  const layer = {
    ...{ attempt: 1, rank: 0, x, x1: [...x], n, mean, last: [...mean], t: [...x] },
    ...{ nan: none, pinf: none, ninf: none },
    min: spread ? mean.map((value, i) => value - std[i]) : min,
    max: spread ? mean.map((value, i) => value + std[i]) : max,
  };
  return { id, name, ink, of: series.runs, layer, lowest: min };
}

/**
 * Return where runs of a group that the server aggregated are not finite.
 *
 * @param {GroupSeries} series
 * @returns {Layer}
 */
export function faultsOfSums(series) {
  const mean = meanOfSums({ id: "", name: "" }, "", series, "range").layer;
  const [nan, pinf, ninf] = [series.nan, series.pinf, series.ninf].map((each) => Array.from(unpack(each)));
  return { ...mean, nan, pinf, ninf, n: mean.n.map((n, i) => n + nan[i] + pinf[i] + ninf[i]) };
}

/**
 * Return the layer from which the axis is chosen: a standard deviation that reaches below zero does not rule
 * out a logarithmic axis.
 *
 * @param {Mean} mean
 * @returns {Layer}
 */
const positive = ({ layer, lowest }) => ({
  ...layer,
  min: layer.min.map((low, i) => (low > 0 ? low : Math.min(lowest[i], layer.mean[i]))),
});

/**
 * Return the mean and the band of a group. Where a run has no finite value it is not counted, so that the
 * mean never contains a value from before its end.
 *
 * @param {Gathered} gathered
 * @param {[number, number]} range
 * @param {number} count buckets
 * @param {boolean} held each value holds until the next
 * @param {BandKind} band
 * @returns {Mean}
 */
export function meanOf({ group, ink, members }, range, count, held, band) {
  const columns = members
    .map((run) =>
      columnOf(
        partsOf(run).map((part) => part.layer),
        range,
        count,
        held,
      ),
    )
    .filter((column) => column.some((bucket) => bucket));
  const layer = /** @type {Layer} */ ({
    ...{ attempt: 1, rank: 0, x: [], x1: [], min: [], max: [], mean: [], last: [], n: [], t: [] },
    ...{ nan: [], pinf: [], ninf: [] },
  });
  /** @type {number[]} */
  const lowest = [];
  for (let slot = 0; slot < count + 3; slot++) {
    const here = columns.map((column) => column[slot]).filter((bucket) => bucket !== undefined);
    const own = here.filter((bucket) => bucket.own);
    if (!own.length) continue;
    const x = own.reduce((mean, bucket, k) => mean + (bucket.x - mean) / (k + 1), 0);
    const values = here.map((bucket) => (bucket.own ? bucket : bucket.between(x)));
    push(layer, x, values, band);
    lowest.push(Math.min(...values.map(({ low }) => low).filter(Number.isFinite)));
  }
  return { id: group.id, name: group.name, ink, of: columns.length, layer, lowest };
}

/**
 * @typedef {{ value: number, low: number, high: number, t: number }} Value
 * @typedef {Value & { x: number, own: boolean, between: (x: number) => Value }} Bucket own: it has records in
 *   this slot; if not, `between` interpolates
 */

/**
 * @param {Layer} layer
 * @param {number} x
 * @param {Value[]} values
 * @param {BandKind} band
 */
function push(layer, x, values, band) {
  const good = values.filter(({ value }) => Number.isFinite(value));
  const { n, mean, spread } = moments(good.map(({ value }) => value));
  const low = band === "std" ? mean - spread : Math.min(...good.map((each) => each.low));
  const high = band === "std" ? mean + spread : Math.max(...good.map((each) => each.high));
  const none = n ? mean : NaN;
  const columns = /** @type {[number[], number][]} */ ([
    [layer.x, x],
    [layer.x1, x],
    [layer.min, n ? low : NaN],
    [layer.max, n ? high : NaN],
    [layer.mean, none],
    [layer.last, none],
    [layer.n, n],
    [layer.nan, 0],
    [layer.pinf, 0],
    [layer.ninf, 0],
    [layer.t, Math.max(...values.map((each) => each.t))],
  ]);
  for (const [column, value] of columns) column.push(value);
}

/**
 * Return mean and sample standard deviation by B. P. Welford's method, by which equal values have exactly
 * their value as mean.
 *
 * @param {number[]} values
 */
function moments(values) {
  let mean = 0;
  let squares = 0;
  values.forEach((value, k) => {
    const off = value - mean;
    mean += off / (k + 1);
    squares += off * (value - mean);
  });
  const n = values.length;
  return { n, mean, spread: n > 1 ? Math.sqrt(squares / (n - 1)) : 0 };
}

/**
 * Return the buckets of one run by slot of the window; between two of them, what interpolates. Nothing before
 * its first and after its last.
 *
 * @param {Layer[]} layers oldest attempt first
 * @param {[number, number]} range
 * @param {number} count
 * @param {boolean} held
 * @returns {(Bucket | undefined)[]}
 */
function columnOf(layers, [from, to], count, held) {
  /** @type {(Bucket | undefined)[]} */
  const column = new Array(count + 3).fill(undefined);
  const width = Math.max((to - from) / count, Number.MIN_VALUE);
  for (const layer of layers) {
    const few = thin(layer, from, to, count);
    few.x.forEach((x, i) => {
      const slot = Math.max(-1, Math.min(count + 1, Math.floor((x - from) / width)));
      column[slot + 1] = bucketOf(few, i, held);
    });
  }
  let before = -1;
  column.forEach((bucket, slot) => {
    if (!bucket) return;
    for (let i = before + 1; before >= 0 && i < slot; i++) {
      column[i] = gap(/** @type {Bucket} */ (column[before]), bucket, held);
    }
    before = slot;
  });
  return column;
}

/**
 * @param {Layer} layer
 * @param {number} i
 * @param {boolean} held
 * @returns {Bucket}
 */
function bucketOf(layer, i, held) {
  const known = finite(layer, i) > 0;
  const value = !known ? NaN : held ? layer.last[i] : layer.mean[i];
  const x = held ? layer.x[i] : (layer.x[i] + layer.x1[i]) / 2;
  const made = { value, low: layer.min[i], high: layer.max[i], t: layer.t[i] };
  return { ...made, x, own: true, between: () => made };
}

/**
 * @param {Bucket} a
 * @param {Bucket} b
 * @param {boolean} held
 * @returns {Bucket}
 */
function gap(a, b, held) {
  const between = (/** @type {number} */ x) => {
    const share = held || b.x <= a.x ? 0 : (x - a.x) / (b.x - a.x);
    const value = share ? a.value + share * (b.value - a.value) : a.value;
    return { value, low: value, high: value, t: a.t };
  };
  return { ...between(a.x), x: a.x, own: false, between };
}

/**
 * Return what the groups are at `x`: the mean, the band, and how many of the runs are behind it.
 *
 * @param {Mean[]} means
 * @param {number} x in units of the axis
 * @param {{ band: BandKind, minus: boolean, held: boolean }} how minus: they are differences
 */
export function groupsAt(means, x, { band, minus, held }) {
  return means.flatMap(({ id, name, ink, of, layer }) => {
    const i = placeOf(layer.x, x, held);
    if (i < 0 || !layer.n[i]) return [];
    const mean = layer.mean[i];
    const text = `${minus && mean >= 0 ? "+" : ""}${num(mean)}`;
    const n = layer.n[i] < of ? `${layer.n[i]} of ${counted(of, "run")}` : counted(of, "run");
    return [{ id, name, ink, text, soft: dotted(spreadOf(layer, i, band), n), t: layer.t[i] }];
  });
}

/**
 * @param {Layer} layer
 * @param {number} i
 * @param {BandKind} band
 */
function spreadOf({ n, min, max, mean }, i, band) {
  if (n[i] < 2) return "";
  return band === "std" ? `± ${num(max[i] - mean[i], 3)}` : `${num(min[i], 3)} … ${num(max[i], 3)}`;
}

/**
 * Return the nearest point, or the one whose value is held; -1 beyond both ends.
 *
 * @param {number[]} xs
 * @param {number} x
 * @param {boolean} held
 */
function placeOf(xs, x, held) {
  const apart = xs.length > 1 ? (xs[xs.length - 1] - xs[0]) / (xs.length - 1) : 0;
  if (!xs.length || x < xs[0] - apart || x > xs[xs.length - 1] + apart) return -1;
  const i = Math.max(0, at(xs, x));
  return !held && i + 1 < xs.length && xs[i + 1] - x < x - xs[i] ? i + 1 : i;
}

/**
 * Return the mean and the sample standard deviation of the finite values, and how many are not finite.
 *
 * @param {number[]} values
 * @param {(mean: number) => string} [write]
 */
export function summary(values, write = num) {
  const { n, mean, spread } = moments(values.filter(Number.isFinite));
  const bad = values.length - n;
  return {
    text: n ? write(mean) : bad ? "not finite" : "–",
    soft: spread ? `± ${num(spread, 3)}` : "",
    bad: n && bad ? `${bad} of ${values.length} not finite` : "",
  };
}
