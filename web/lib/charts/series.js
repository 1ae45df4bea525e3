/** Series in memory: the response of `series` and the records that the socket added since. */

import { unpack } from "../exact.js";
import { at, compact, emptyLayer, insertRecord } from "./buckets.js";

/** Buckets of a layer before its older half is merged in pairs. */
const LIMIT = 8_192;

/**
 * @param {Packed | Float64Array} given
 * @returns {Float64Array}
 */
const floats = (given) => (given instanceof Float64Array ? given : unpack(given));
/**
 * @param {Packed | Float64Array | undefined} given
 * @param {Float64Array} otherwise
 */
const numbers = (given, otherwise) => Array.from(given ? floats(given) : otherwise);

/**
 * A layer of exact records: the value is in `first`.
 *
 * @param {WireLayer} wire
 * @returns {Layer}
 */
function exactLayer(wire) {
  const x = floats(wire.x);
  const value = wire.first ? floats(wire.first) : new Float64Array();
  const t = wire.t ? floats(wire.t) : x;
  if (value.length !== x.length) {
    throw new RangeError(`series: expected ${x.length} values, got ${value.length}`);
  }
  if (x.every((step, i) => !i || x[i - 1] <= step)) return recordsOf(wire, x, value, t);
  const layer = emptyLayer(wire.attempt, wire.rank);
  for (let i = 0; i < x.length; i++) insertRecord(layer, x[i], value[i], t[i]);
  return layer;
}

/**
 * Return records that are in order of their steps as buckets of one.
 *
 * @param {{ attempt: number, rank: number }} wire
 * @param {Float64Array} x
 * @param {Float64Array} value
 * @param {Float64Array} t
 * @returns {Layer}
 */
function recordsOf({ attempt, rank }, x, value, t) {
  const good = Array.from(value, (each) => (Number.isFinite(each) ? each : NaN));
  const count = (/** @type {number} */ kind) => Array.from(value, (each) => Number(Object.is(each, kind)));
  return {
    attempt,
    rank,
    x: Array.from(x),
    x1: Array.from(x),
    min: good,
    max: [...good],
    mean: [...good],
    last: Array.from(value),
    n: new Array(x.length).fill(1),
    nan: count(NaN),
    pinf: count(Infinity),
    ninf: count(-Infinity),
    t: Array.from(t),
  };
}

/**
 * @param {WireLayer} wire
 * @returns {Layer}
 */
function bucketLayer(wire) {
  const x = floats(wire.x);
  const none = new Float64Array(x.length);
  const nan = none.map(() => NaN);
  const one = none.map(() => 1);
  return {
    attempt: wire.attempt,
    rank: wire.rank,
    x: Array.from(x),
    x1: numbers(wire.x1, x),
    t: numbers(wire.t, x),
    min: numbers(wire.min, nan),
    max: numbers(wire.max, nan),
    mean: numbers(wire.mean, nan),
    last: numbers(wire.last, nan),
    n: numbers(wire.n, one),
    nan: numbers(wire.nan, none),
    pinf: numbers(wire.pinf, none),
    ninf: numbers(wire.ninf, none),
  };
}

/** @param {WireLayer} wire */
const decodeLayer = (wire) => (wire.exact || !wire.mean ? exactLayer(wire) : bucketLayer(wire));

/**
 * Order by newest attempt, then by rank: charts show the first layer as the line.
 *
 * @param {Layer} a
 * @param {Layer} b
 */
const order = (a, b) => b.attempt - a.attempt || a.rank - b.rank;

export class SeriesSet {
  /** @param {number} [limit] buckets per layer */
  constructor(limit = LIMIT) {
    this.limit = limit;
    /** @type {Map<string, Layer[]>} */
    this.layers = new Map();
    /** @type {number | null} cursor up to which it is complete */
    this.cursor = null;
    /** @type {number | null} */
    this.first = null;
    /** @type {number | null} */
    this.last = null;
    /** @type {StepWindow} records outside are ignored */
    this.bounds = { from: null, to: null };
  }

  /**
   * Replace the content with a complete response.
   *
   * @param {SeriesAnswer} answer
   */
  take(answer) {
    this.cursor = answer.cursor;
    this.first = answer.first_step;
    this.last = answer.last_step;
    this.layers = new Map(
      Object.entries(answer.series).map(([name, wires]) => [name, wires.map(decodeLayer).sort(order)]),
    );
  }

  /**
   * Add new records. A frame that is not newer than the cursor is ignored.
   *
   * @param {{ cursor: number, series: Record<string, WireLayer[]>,
   *   row?: { last_step: number | null } | null }} delta
   * @returns {boolean} whether any record was added, or the run has a newer step
   */
  add(delta) {
    if (this.cursor !== null && delta.cursor <= this.cursor) return false;
    this.cursor = delta.cursor;
    let grew = false;
    for (const [name, wires] of Object.entries(delta.series ?? {})) {
      for (const wire of wires) grew = this.#append(name, wire) || grew;
    }
    const newest = delta.row?.last_step;
    if (newest === undefined || newest === null || newest <= (this.last ?? -Infinity)) return grew;
    this.#reach(this.first ?? newest, newest); // the x axis of a run that reports other series
    return true;
  }

  /**
   * @param {string} name
   * @param {WireLayer} wire
   * @returns {boolean}
   */
  #append(name, wire) {
    const layers = this.layers.get(name) ?? [];
    const found = layers.findIndex((layer) => layer.attempt === wire.attempt && layer.rank === wire.rank);
    const layer = found < 0 ? emptyLayer(wire.attempt, wire.rank) : layers[found];
    const news = exactLayer(wire);
    let grew = false;
    for (let i = 0; i < news.x.length; i++) {
      if (!this.#within(news.x[i])) continue;
      insertRecord(layer, news.x[i], news.last[i], news.t[i]);
      grew = true;
    }
    if (found < 0) layers.push(layer);
    else layers[found] = compact(layer, this.limit);
    this.layers.set(name, layers.sort(order));
    if (news.x.length) this.#reach(news.x[0], news.x[news.x.length - 1]);
    return grew;
  }

  /** @param {number} step */
  #within(step) {
    return step >= (this.bounds.from ?? -Infinity) && step <= (this.bounds.to ?? Infinity);
  }

  /**
   * @param {number} low
   * @param {number} high
   */
  #reach(low, high) {
    this.first = this.first === null ? low : Math.min(this.first, low);
    this.last = this.last === null ? high : Math.max(this.last, high);
  }

  /**
   * @param {string} name
   * @returns {Layer[]}
   */
  get(name) {
    return this.layers.get(name) ?? [];
  }
}

/**
 * Return which range of each layer to show: the newest attempt from its first step, each older one before it.
 * Replayed steps and other ranks stay visible but faint.
 *
 * @param {Layer[]} layers newest attempt first
 * @returns {{ layer: Layer, from: number, to: number, faint: boolean }[]} faint ones first, to be drawn below
 */
export function stretches(layers) {
  const out = [];
  let edge = Infinity;
  let attempt = NaN;
  for (const layer of layers.filter((one) => one.x.length)) {
    const first = layer.x[0];
    const end = layer.x[layer.x.length - 1];
    if (layer.attempt === attempt) {
      out.push({ layer, from: first, to: end, faint: true });
      continue;
    }
    attempt = layer.attempt;
    if (first < edge) out.push({ layer, from: first, to: edge, faint: false });
    if (end >= edge) out.push({ layer, from: Math.max(first, edge), to: Infinity, faint: true });
    edge = Math.min(edge, first);
  }
  return out.sort((a, b) => Number(b.faint) - Number(a.faint));
}

/**
 * Return the bucket of a series at step `x`, newest attempt first; the newest bucket if x is null.
 *
 * @param {Layer[]} layers
 * @param {number | null} x
 * @returns {{ layer: Layer, i: number } | null}
 */
export function reading(layers, x) {
  for (const layer of layers) {
    const i = x === null ? layer.x.length - 1 : at(layer.x, x);
    if (i >= 0) return { layer, i };
  }
  return null;
}
