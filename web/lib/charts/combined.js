/** The values of a formula as layers: where all its series have records, by attempt and rank. */

import { at, emptyLayer, finite, pushBucket } from "./buckets.js";

/**
 * Evaluate a formula at the records of its sparsest series, with the bucket of each other series that
 * contains the step. A bucket of several records counts with its mean.
 *
 * @param {import("./formula.js").Formula} formula
 * @param {(name: string) => Layer[]} layersOf newest attempt first
 * @returns {Layer[]}
 */
export function combined({ names, value }, layersOf) {
  const [first, ...others] = names.map(layersOf);
  return first.flatMap((layer) => {
    const same = others.map((layers) =>
      layers.find((each) => each.attempt === layer.attempt && each.rank === layer.rank),
    );
    const operands = [layer, ...same.filter((each) => each !== undefined)];
    return operands.length === names.length ? [evaluate(operands, value)] : [];
  });
}

/**
 * @param {Layer[]} operands
 * @param {import("./formula.js").Value} value
 * @returns {Layer}
 */
function evaluate(operands, value) {
  const sparsest = operands.reduce((a, b) => (b.x.length < a.x.length ? b : a));
  const out = emptyLayer(sparsest.attempt, sparsest.rank);
  for (let i = 0; i < sparsest.x.length; i++) {
    const places = operands.map((layer) => (layer === sparsest ? i : covering(layer, sparsest, i)));
    if (places.every((place) => place >= 0)) pushBucket(out, bucket(operands, places, i, sparsest, value), 0);
  }
  return out;
}

/**
 * Return the bucket of `layer` that has steps in common with bucket `i` of `sparse`; -1 if none.
 *
 * @param {Layer} layer
 * @param {Layer} sparse
 * @param {number} i
 */
function covering(layer, sparse, i) {
  const place = at(layer.x, sparse.x1[i]);
  return place >= 0 && layer.x1[place] >= sparse.x[i] ? place : -1;
}

/**
 * Return a layer of one bucket. A non-finite operand makes a mark of what the formula gives there.
 *
 * @param {Layer[]} operands
 * @param {number[]} places
 * @param {number} i
 * @param {Layer} sparsest
 * @param {import("./formula.js").Value} value
 * @returns {Layer}
 */
function bucket(operands, places, i, sparsest, value) {
  const values = operands.map((layer, k) =>
    finite(layer, places[k]) ? layer.mean[places[k]] : badOf(layer, places[k]),
  );
  const results = [value(values), ...spoiled(operands, places, values, value)];
  const good = Number.isFinite(results[0]) ? results[0] : NaN;
  return {
    attempt: sparsest.attempt,
    rank: sparsest.rank,
    x: [sparsest.x[i]],
    x1: [sparsest.x1[i]],
    t: [sparsest.t[i]],
    min: [good],
    max: [good],
    mean: [good],
    last: [results[0]],
    n: [results.length],
    nan: [results.filter(Number.isNaN).length],
    pinf: [results.filter((each) => each === Infinity).length],
    ninf: [results.filter((each) => each === -Infinity).length],
  };
}

/**
 * @param {Layer} layer
 * @param {number} i a bucket without finite values
 */
const badOf = (layer, i) => (layer.nan[i] ? NaN : layer.pinf[i] ? Infinity : -Infinity);

/**
 * Return the non-finite results of the non-finite records that a bucket has beside finite ones.
 *
 * @param {Layer[]} operands
 * @param {number[]} places
 * @param {number[]} values
 * @param {import("./formula.js").Value} value
 * @returns {number[]}
 */
function spoiled(operands, places, values, value) {
  const kinds = /** @type {const} */ ([
    ["nan", NaN],
    ["pinf", Infinity],
    ["ninf", -Infinity],
  ]);
  return operands
    .flatMap((layer, k) =>
      kinds
        .filter(([key]) => layer[key][places[k]] && finite(layer, places[k]))
        .map(([, bad]) => value(values.map((each, j) => (j === k ? bad : each)))),
    )
    .filter((result) => !Number.isFinite(result));
}
