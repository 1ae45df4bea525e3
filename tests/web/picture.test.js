import assert from "node:assert/strict";
import { test } from "node:test";
import { thin } from "../../web/lib/charts/buckets.js";
import { envelopeOf, picture, railLabels } from "../../web/lib/charts/picture.js";
import { layerOf } from "./layers.js";

const LOG = { axis: "log" };
const STEPS = { axis: "log2", steps: true };
const draw = (drawing, layers, range = [0, 100], skipped = []) =>
  picture(drawing, layers, skipped, range, 800, false);

test("the line has a gap at a non-finite value, and a mark at that step", () => {
  const { lines, marks } = draw({ axis: "linear" }, [
    layerOf([
      [0, 1],
      [1, NaN],
      [2, 3],
    ]),
  ]);
  assert.deepEqual([lines[0].y[0], Number.isNaN(lines[0].y[1]), lines[0].y[2]], [1, true, 3]);
  assert.deepEqual(
    marks.map(({ x, kind }) => [x, kind]),
    [[1, "nan"]],
  );
});

test("on a log axis zeros and negatives leave the line and become marks", () => {
  const { lines, marks, plan } = draw(LOG, [
    layerOf([
      [0, 1],
      [10, 0],
      [20, -1],
      [30, 10],
    ]),
  ]);
  assert.deepEqual(lines[0].y.map(Number.isFinite), [true, false, false, true]);
  assert.deepEqual(
    marks.map(({ kind }) => kind),
    ["zero", "negative"],
  );
  assert.ok(10 ** plan.range[0] < 1);
});

test("data stays below the marks", () => {
  const plain = draw(LOG, [
    layerOf([
      [0, 1],
      [1, 10],
    ]),
  ]).plan.range;
  const railed = draw(LOG, [
    layerOf([
      [0, 1],
      [1, 10],
      [2, NaN],
    ]),
  ]).plan.range;
  assert.ok(railed[1] > plain[1] + 0.1);
});

test("a held value shows the newest of its bucket, so a scale stays a power of two", () => {
  const { lines } = draw(
    STEPS,
    [layerOf(Array.from({ length: 5000 }, (_, i) => [i, 2 ** (16 - Math.floor(i / 1000))]))],
    [0, 5000],
  );
  assert.ok(lines[0].y.every((v) => Number.isInteger(Math.log2(v))));
});

test("there are no more points than pixels", () => {
  const { lines } = draw(
    { axis: "linear" },
    [layerOf(Array.from({ length: 20000 }, (_, i) => [i, Math.sin(i)]))],
    [0, 20000],
  );
  assert.ok(lines[0].x.length <= 802);
});

test("the envelope contains every spike", () => {
  const layer = thin(layerOf(Array.from({ length: 1000 }, (_, i) => [i, i === 500 ? 99 : 1])), 0, 1000, 50);
  assert.equal(Math.max(...envelopeOf(layer, null).y), 99);
});

test("the envelope is closed at every gap, so nothing is filled across it", () => {
  const layer = thin(
    layerOf([
      [0, 1],
      [1, 2],
      [10, NaN],
      [20, 3],
      [21, 5],
    ]),
    0,
    30,
    3,
  );
  const { x, y } = envelopeOf(layer, null);
  const cut = x.findIndex(Number.isNaN);
  assert.ok(cut > 0 && Number.isNaN(y[cut]));
  assert.deepEqual([x[0], y[0]], [x[cut - 1], y[cut - 1]]);
});

test("non-finite values alone still have an axis and marks", () => {
  const { marks, plan, empty } = draw(LOG, [
    layerOf([
      [0, NaN],
      [50, Infinity],
    ]),
  ]);
  assert.deepEqual([marks.length, plan.range.every(Number.isFinite), empty], [2, true, false]);
});

test("no values give an empty picture", () => {
  assert.equal(draw(LOG, []).empty, true);
});

test("non-finite values of a superseded range stay marked", () => {
  const { marks, lines } = draw(LOG, [
    layerOf(
      [
        [10, 1],
        [20, 1],
      ],
      2,
    ),
    layerOf(
      [
        [5, 1],
        [15, NaN],
      ],
      1,
    ),
  ]);
  assert.deepEqual(
    marks.map(({ x, kind }) => [x, kind]),
    [[15, "nan"]],
  );
  assert.deepEqual(
    lines.map((line) => line.faint),
    [true, false, false],
  );
});

test("smoothing keeps the raw line, its range and every mark", () => {
  const records = Array.from({ length: 200 }, (_, i) => [i, i === 100 ? NaN : i % 2]);
  const layers = [layerOf(records)];
  const plain = picture({ axis: "linear" }, layers, [], [0, 200], 800, false);
  const soft = picture({ axis: "linear" }, layers, [], [0, 200], 800, false, { smooth: 0.95 });
  assert.deepEqual(soft.marks, plain.marks);
  assert.deepEqual(soft.envelope, plain.envelope);
  assert.deepEqual(
    soft.lines.map((line) => Boolean(line.raw)),
    [true, false],
  );
  assert.deepEqual(soft.lines[0].y, plain.lines[0].y);
  assert.ok(soft.lines[1].y.slice(150).every((v) => v > 0.3 && v < 0.7));
});

test("an older attempt is drawn in full if selected, else only where nothing newer is", () => {
  const layers = [
    layerOf(
      [
        [10, 1],
        [20, 1],
      ],
      2,
    ),
    layerOf(
      [
        [5, 2],
        [15, 2],
      ],
      1,
    ),
  ];
  const full = picture({ axis: "linear" }, layers, [], [0, 30], 800, false, { older: [1] });
  assert.equal(full.lines.filter((line) => line.ink).flatMap((line) => line.x).length, 2);
  assert.ok(full.lines.every((line) => !line.faint));
});

test("marks beyond the axis are labeled, and separated where the values end", () => {
  const drawn = draw({ axis: "log" }, [
    layerOf([
      [0, 1],
      [1, NaN],
      [2, 0],
      [3, 3],
    ]),
  ]);
  assert.deepEqual(
    railLabels(drawn).map(({ text, edge }) => [text, edge]),
    [
      ["NaN", 1 - drawn.rails.top],
      ["≤ 0", drawn.rails.bottom],
    ],
  );
  assert.deepEqual(railLabels(draw({ axis: "linear" }, [layerOf([[0, 1]])])), []);
});
