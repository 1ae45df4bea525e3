/** Test data: packed arrays, layers, alerts, responses. */

import { emptyLayer, insertRecord } from "../../web/lib/charts/buckets.js";

/** Float64 values as the API packs them. */
export function packed(values) {
  const bytes = new Uint8Array(Float64Array.from(values).buffer);
  return { dtype: "f8", bdata: Buffer.from(bytes).toString("base64") };
}

/** A layer of exact records: [[step, value], ...]. */
export function layerOf(records, attempt = 1, rank = 0) {
  const layer = emptyLayer(attempt, rank);
  for (const [step, value] of records) insertRecord(layer, step, value, step * 10);
  return layer;
}

/** Records as a layer of the API. */
export function wireLayer(records, attempt = 1, rank = 0) {
  return {
    attempt,
    rank,
    exact: true,
    x: packed(records.map(([x]) => x)),
    t: packed(records.map(([x]) => x * 10)),
    first: packed(records.map(([, v]) => v)),
  };
}

export function answer(cursor, series) {
  const steps = Object.values(series)
    .flat()
    .map(([x]) => x);
  return {
    run: "r",
    cursor,
    first_step: Math.min(...steps),
    last_step: Math.max(...steps),
    series: Object.fromEntries(Object.entries(series).map(([name, records]) => [name, [wireLayer(records)]])),
  };
}

let serial = 0;
/** A firing alert, with the given changes. */
export function alertOf(change = {}) {
  serial += 1;
  return {
    id: `a${serial}`,
    incident: "",
    run_id: "r",
    run_name: "run",
    project: "p",
    rule: "scaler-collapse",
    subject: "scale",
    severity: "critical",
    state: "firing",
    onset_step: 10,
    onset_ms: 1000,
    fired_step: 20,
    fired_ms: 2000,
    resolved_step: null,
    resolved_ms: null,
    late: false,
    causal_order: 0,
    summary: "fell",
    labels: {},
    diagnosis: null,
    ...change,
  };
}

export function rowOf(change = {}) {
  return {
    id: "r",
    project: "deblur",
    name: "mdt",
    state: "running",
    health: "ok",
    tags: [],
    host: "node-07",
    created_ms: 0,
    reason: null,
    ...change,
  };
}
