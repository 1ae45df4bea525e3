import assert from "node:assert/strict";
import { test } from "node:test";
import { describe, turns } from "../../web/lib/charts/inwords.js";
import { describeRuns } from "../../web/lib/charts/runsinwords.js";
import { thin } from "../../web/lib/charts/buckets.js";
import { pow2 } from "../../web/lib/format.js";
import { alertOf, layerOf } from "./layers.js";

const upTo = (count, value) => Array.from({ length: count }, (_, i) => [i, value(i)]);
const noise = (i) => Math.sin(i * 12.9898) * 0.5;
const words = (records, more = {}) => describe({ layers: [layerOf(records)], window: [0, 99], ...more });

test("a curve has a start, an end, extremes with their steps, and a direction", () => {
  const fall = upTo(100, (i) => (i < 50 ? 2 - i / 25 : i === 70 ? -1 : 0.04));
  assert.equal(
    words(fall),
    "Steps 0 to 99: starts at 2 and ends at 0.04000. Lowest −1 at step 70, highest 2 at step 0. " +
      "Falling, then level.",
  );
});

test("non-finite values are counted by kind, with the first step of each", () => {
  const text = words(upTo(20, (i) => ({ 3: NaN, 7: Infinity, 9: NaN, 12: -Infinity })[i] ?? 1));
  assert.match(text, /2 NaN, the first at step 3\. 1 \+Inf, at step 7\. 1 −Inf, at step 12\./);
});

test("a curve without a finite value says so, and so does an empty window", () => {
  assert.equal(words([[0, NaN]]), "Steps 0 to 99: no finite values. 1 NaN, at step 0.");
  assert.equal(words([], { window: [5, 9] }), "Steps 5 to 9: no values.");
});

test("only the window is described", () => {
  const text = words(
    upTo(100, (i) => i),
    { window: [10, 20] },
  );
  assert.match(text, /^Steps 10 to 20: starts at 10 and ends at 20\./);
});

test("within a bucket of many records a step is known only from its bounds", () => {
  const records = upTo(100, (i) => (i === 55 ? NaN : i));
  const layers = [thin(layerOf(records), 0, 100, 10)];
  assert.match(describe({ layers, window: [0, 99] }), /1 NaN, between steps 50 and 59\./);
});

test("skipped steps are counted, and a loss scale is written in powers of two", () => {
  const skipped = [layerOf(upTo(50, (i) => Number(i === 20 || i === 30)))];
  const text = words(
    upTo(50, (i) => (i < 20 ? 65536 : 32768)),
    { skipped, text: pow2, held: true },
  );
  assert.match(text, /starts at 2¹⁶ and ends at 2¹⁵\./);
  assert.match(text, /2 skipped steps, the first at step 20\.$/);
});

test("alerts that began in the window are named with severity and step, except pending ones", () => {
  const alerts = [
    alertOf(),
    alertOf({ onset_step: 500, incident: "b" }),
    alertOf({ state: "pending", id: "p" }),
  ];
  assert.match(
    words([[0, 1]], { alerts: alerts.slice(0, 2) }),
    / Alert: Scaler collapse \(critical\) from step 10\.$/,
  );
  assert.doesNotMatch(words([[0, 1]], { alerts: alerts.slice(2) }), /Alert/);
});

test("noise and a single spike have no direction; a trend below noise does", () => {
  assert.equal(
    turns(
      Array.from({ length: 400 }, (_, i) => 1 + noise(i) + (i === 200 ? 99 : 0)),
      false,
    ),
    "Level",
  );
  assert.equal(
    turns(
      Array.from({ length: 400 }, (_, i) => 4 - i / 100 + noise(i)),
      false,
    ),
    "Falling",
  );
  assert.equal(
    turns(
      Array.from({ length: 400 }, (_, i) => Math.abs(i - 200)),
      false,
    ),
    "Falling, then level, then rising",
  );
});

test("older attempts are described before the newest, replayed steps once", () => {
  const layers = [
    layerOf(
      [
        [5, 50],
        [6, 60],
      ],
      2,
    ),
    layerOf(
      [
        [0, 1],
        [5, -9],
        [7, 3],
      ],
      1,
    ),
  ];
  assert.match(
    describe({ layers, window: [0, 9] }),
    /starts at 1 and ends at 60\. Lowest 1 at step 0, highest 60/,
  );
});

test("with several ranks it is said whose line it is, and faults of all ranks count", () => {
  const layers = [
    layerOf(
      [
        [0, 1],
        [1, 2],
      ],
      1,
      0,
    ),
    layerOf(
      [
        [0, 1],
        [1, NaN],
      ],
      1,
      1,
    ),
  ];
  assert.match(describe({ layers, window: [0, 9] }), /The line is rank 0 of 2 ranks\. 1 NaN, at step 1\./);
});

const runs = (count) =>
  Array.from({ length: count }, (_, k) => ({ id: `r${k}`, x: [0, 10], y: [9, (k * 7) % count] }));
const label = (x) => `step ${x}`;

test("few runs of a comparison are described one by one, with exact last values", () => {
  const newest = new Map([["r1", "0.3727"]]);
  const text = describeRuns(runs(2), [], false, { nameOf: (id) => `run ${id}`, label, newest });
  assert.equal(
    text,
    "run r0: starts at 9 and ends at 0, lowest 0 at step 10. " +
      "run r1: starts at 9 and ends at 0.3727, lowest 1 at step 10.",
  );
});

test("of many runs the lowest and the highest are named", () => {
  const marks = [{ x: 4, kind: "nan", count: 2 }];
  const text = describeRuns(runs(10), marks, false, { nameOf: (id) => id, label, newest: new Map() });
  assert.equal(
    text,
    "10 runs. Lowest at their ends: r0 0, r3 1, r6 2. Highest: r7 9, r4 8, r1 7. 2 NaN, the first at step 4.",
  );
});
