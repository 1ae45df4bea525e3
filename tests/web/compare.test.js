import assert from "node:assert/strict";
import { test } from "node:test";
import {
  alignment,
  bucketsFor,
  difference,
  nearest,
  overlay,
  settings,
  tokenSeries,
  valueAt,
} from "../../web/lib/charts/compare.js";
import { pathOf } from "../../web/lib/charts/path.js";
import { STEPS } from "../../web/lib/charts/timeaxis.js";
import { layerOf } from "./layers.js";

const over = (layers, ink = "--run-1", line = STEPS) => ({ layers, ink, dash: "", line });

test("the difference is exact at common steps, and absent where the base has no value", () => {
  const layer = difference(
    layerOf([
      [0, 3],
      [1, 5],
      [2, 7],
      [9, 1],
    ]),
    [
      layerOf([
        [0, 1],
        [1, 2],
        [2, NaN],
        [3, 1],
      ]),
    ],
    false,
  );
  assert.deepEqual(
    layer.mean.map((v) => (Number.isNaN(v) ? "gap" : v)),
    [2, 3, "gap", "gap"],
  );
});

test("base values are interpolated, or held for held series", () => {
  const base = [
    layerOf([
      [0, 0],
      [10, 10],
    ]),
  ];
  assert.equal(valueAt(base, 5), 5);
  assert.deepEqual(difference(layerOf([[5, 5]]), base, false).mean, [0]);
  assert.deepEqual(difference(layerOf([[5, 5]]), base, true).mean, [5]);
});

test("the run's non-finite values stay marked in the difference, and the base's don't appear", () => {
  const run = over([
    layerOf([
      [0, 1],
      [1, NaN],
      [2, 1],
    ]),
  ]);
  const base = over([
    layerOf([
      [0, 1],
      [1, 1],
      [2, Infinity],
    ]),
  ]);
  const { marks, lines } = overlay({ axis: "linear" }, [run, base], base, [0, 3], 100, false, 0);
  assert.deepEqual(
    marks.map(({ kind, x }) => [kind, x]),
    [["nan", 1]],
  );
  assert.equal(lines.length, 1);
});

test("every run is a line in its own color over its range", () => {
  const { lines, shades } = overlay(
    { axis: "linear" },
    [
      over(
        [
          layerOf([
            [0, 1],
            [1, 2],
          ]),
        ],
        "--run-1",
      ),
      over(
        [
          layerOf([
            [0, 3],
            [5, 2],
          ]),
        ],
        "--run-2",
      ),
    ],
    null,
    [0, 6],
    100,
    false,
    0,
  );
  assert.deepEqual(
    lines.map((line) => line.ink),
    ["--run-1", "--run-2"],
  );
  assert.equal(shades.length, 2);
});

test("aligned by tokens, runs are placed by their token count", () => {
  const line = alignment(
    "tokens",
    [],
    [
      [
        layerOf([
          [0, 0],
          [10, 1000],
          [11, 1000],
          [12, NaN],
        ]),
      ],
    ],
  );
  assert.deepEqual([line.toX(5), line.toStep(500)], [500, 5]);
  assert.deepEqual(
    line.project(
      layerOf([
        [0, 1],
        [5, 2],
      ]),
    ).x,
    [0, 500],
  );
  assert.equal(alignment("tokens", [], []), null);
  assert.equal(alignment("relative", [], []), null);
});

test("the token count is found under common names", () => {
  assert.equal(tokenSeries(["loss", "train/consumed_tokens", "tokens"]), "tokens");
  assert.equal(tokenSeries(["data/num_tokens", "tokens_per_s"]), "data/num_tokens");
  assert.equal(tokenSeries(["loss", "tokens_per_s"]), null);
});

test("settings that differ come first, and a missing one differs", () => {
  const rows = settings([
    { lr: 1, a: { b: 2 }, s: "x" },
    { lr: 1, a: { b: 3 } },
  ]);
  assert.deepEqual(
    rows.map(({ key, differs }) => [key, differs]),
    [
      ["a.b", true],
      ["s", true],
      ["lr", false],
    ],
  );
  assert.equal(rows[1].values[1], undefined);
});

test("hundreds of runs become lines of twelve runs of one style, and no mark and no range is lost", () => {
  const runs = Array.from({ length: 300 }, (_, i) => ({
    ...over(
      [
        layerOf([
          [0, i],
          [1, i === 7 ? NaN : 2 * i],
          [2, i],
        ]),
      ],
      `--run-${(i % 10) + 1}`,
    ),
    dash: i % 20 < 10 ? "" : "6px,3px",
  }));
  const { lines, shades, marks } = overlay({ axis: "linear" }, runs, null, [0, 3], 1200, false, 0);
  assert.deepEqual([lines.length, shades.length], [40, 10]);
  assert.equal(
    lines.reduce((sum, line) => sum + line.y.filter(Number.isFinite).length, 0),
    899,
  );
  assert.deepEqual(
    marks.map(({ kind, x }) => [kind, x]),
    [["nan", 1]],
  );
});

test("the highlighted line keeps gaps, held values, and single values as dots", () => {
  const same = (v) => v;
  const line = (y, held = false) => ({ id: "a", x: [0, 1, 2, 3], y, held, ink: "", dash: "" });
  assert.equal(pathOf(line([5, 6, NaN, 7]), same, same), "M0.0 5.0h0L1.0 6.0M3.0 7.0h0");
  assert.equal(pathOf(line([5, 5, 6, NaN], true), same, same), "M0.0 5.0h0H1.0V5.0H2.0V6.0");
  assert.equal(pathOf(line([NaN, 0, NaN, NaN]), same, Math.log10), "");
});

test("runs with a single value stay points, however many share a style", () => {
  const lone = [
    over([layerOf([[0, 1]])]),
    over([layerOf([[5, 2]])]),
    over([
      layerOf([
        [0, 1],
        [5, 2],
      ]),
    ]),
  ];
  assert.deepEqual(
    overlay({ axis: "linear" }, lone, null, [0, 6], 100, false, 0).lines.map((line) => [
      line.lone,
      line.y.filter(Number.isFinite).length,
    ]),
    [
      [true, 2],
      [false, 2],
    ],
  );
});

test("the run under the pointer is the one whose line is nearest", () => {
  const runs = [
    [
      "low",
      [
        [0, 0],
        [10, 10],
      ],
    ],
    [
      "high",
      [
        [0, 20],
        [10, 20],
      ],
    ],
    ["gone", [[5, NaN]]],
  ].map(([id, points]) => ({ ...over([layerOf(points)]), id }));
  const under = (y, how = { axis: "linear" }, base = null, weight = 0) =>
    nearest(overlay(how, runs, base, [0, 12], 100, false, weight).owned, 5, (value) => value - y, 3);
  assert.deepEqual([under(6), under(18), under(12)], ["low", "high", null]);
  assert.deepEqual(
    [under(5, { axis: "linear", steps: true }), under(1, { axis: "linear", steps: true })],
    [null, "low"],
  );
  assert.deepEqual(
    [under(15, { axis: "linear" }, runs[0]), under(5, { axis: "linear" }, runs[0])],
    ["high", null],
  );
});

test("pointing uses the smoothed line, and nothing beyond its end", () => {
  const run = {
    ...over([
      layerOf([
        [0, 0],
        [1, 0],
        [2, 100],
        [3, 100],
      ]),
    ]),
    id: "a",
  };
  const { owned } = overlay({ axis: "linear" }, [run], null, [0, 4], 100, false, 0.9);
  const drawn = owned[0].y[2];
  assert.ok(owned.length === 1 && drawn < 60);
  assert.deepEqual(
    [
      nearest(owned, 2, (v) => v - drawn, 1),
      nearest(owned, 2, (v) => v - 100, 1),
      nearest(owned, 3.5, (v) => v - owned[0].y[3], 1),
    ],
    ["a", null, null],
  );
});

test("the more runs, the fewer buckets of each are requested", () => {
  assert.deepEqual([1, 30, 31, 300, 1000].map(bucketsFor), [800, 800, 400, 200, 100]);
});
