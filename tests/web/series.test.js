import assert from "node:assert/strict";
import { test } from "node:test";
import { reading, SeriesSet, stretches } from "../../web/lib/charts/series.js";
import { answer, layerOf, packed, wireLayer } from "./layers.js";

test("a response of exact records holds each value, including NaN and Inf", () => {
  const set = new SeriesSet();
  set.take(
    answer(5, {
      loss: [
        [0, 1],
        [1, NaN],
        [2, Infinity],
      ],
    }),
  );
  const [layer] = set.get("loss");
  assert.deepEqual(
    [layer.nan, layer.pinf],
    [
      [0, 1, 0],
      [0, 0, 1],
    ],
  );
  assert.deepEqual([set.cursor, set.first, set.last], [5, 0, 2]);
});

test("the x axis follows the run while other series are reported", () => {
  const set = new SeriesSet();
  set.take(answer(5, {}));
  assert.equal(set.add({ cursor: 6, series: {}, row: { last_step: 40 } }), true);
  assert.equal(set.last, 40);
  assert.equal(set.add({ cursor: 7, series: {}, row: { last_step: 40 } }), false);
});

test("a response of buckets keeps range, counts and last value", () => {
  const set = new SeriesSet();
  const f = (v) => packed([v]);
  set.take({
    ...answer(5, { loss: [[0, 1]] }),
    series: {
      loss: [
        {
          attempt: 1,
          rank: 0,
          exact: false,
          x: f(0),
          x1: f(99),
          t: f(1),
          min: f(-1),
          max: f(7),
          mean: f(2),
          first: f(1),
          last: f(3),
          n: f(100),
          nan: f(2),
          pinf: f(1),
          ninf: f(0),
        },
      ],
    },
  });
  const [layer] = set.get("loss");
  assert.deepEqual(
    [
      layer.x1[0],
      layer.min[0],
      layer.max[0],
      layer.mean[0],
      layer.last[0],
      layer.n[0],
      layer.nan[0],
      layer.pinf[0],
    ],
    [99, -1, 7, 2, 3, 100, 2, 1],
  );
});

test("the socket continues where the response ended", () => {
  const set = new SeriesSet();
  set.take(answer(5, { loss: [[0, 1]] }));
  assert.equal(
    set.add({
      cursor: 6,
      series: {
        loss: [
          wireLayer([
            [1, 2],
            [2, NaN],
          ]),
        ],
      },
    }),
    true,
  );
  assert.deepEqual(set.get("loss")[0].x, [0, 1, 2]);
  assert.deepEqual([set.cursor, set.last], [6, 2]);
});

test("a frame that is not newer than the cursor changes nothing", () => {
  const set = new SeriesSet();
  set.take(answer(5, { loss: [[0, 1]] }));
  assert.equal(set.add({ cursor: 5, series: { loss: [wireLayer([[0, 1]])] } }), false);
  assert.equal(set.get("loss")[0].x.length, 1);
});

test("memory is bounded however long a run is watched", () => {
  const set = new SeriesSet(100);
  set.take(answer(0, { loss: [[0, 1]] }));
  for (let i = 1; i <= 2000; i++) {
    set.add({ cursor: i, series: { loss: [wireLayer([[i, i === 777 ? NaN : i]])] } });
  }
  const [layer] = set.get("loss");
  assert.ok(layer.x.length <= 100);
  assert.equal(
    layer.n.reduce((a, b) => a + b),
    2001,
  );
  assert.equal(
    layer.nan.reduce((a, b) => a + b),
    1,
  );
});

test("a closed window ignores steps outside", () => {
  const set = new SeriesSet();
  set.bounds = { from: 0, to: 5 };
  set.take(answer(1, { loss: [[0, 1]] }));
  set.add({
    cursor: 2,
    series: {
      loss: [
        wireLayer([
          [4, 1],
          [9, 1],
        ]),
      ],
    },
  });
  assert.deepEqual(set.get("loss")[0].x, [0, 4]);
});

test("the newest attempt is drawn from its first step; replayed steps of older ones are faint", () => {
  const first = layerOf(
    [
      [0, 1],
      [10, 1],
      [20, 1],
    ],
    1,
  );
  const second = layerOf(
    [
      [10, 2],
      [30, 2],
    ],
    2,
  );
  const parts = stretches([second, first]).map(({ layer, from, to, faint }) => [
    layer.attempt,
    from,
    to,
    faint,
  ]);
  assert.deepEqual(parts, [
    [1, 10, Infinity, true],
    [2, 10, Infinity, false],
    [1, 0, 10, false],
  ]);
});

test("other ranks of an attempt are faint", () => {
  const parts = stretches([layerOf([[0, 1]], 1, 0), layerOf([[0, 1]], 1, 1)]);
  assert.deepEqual(
    parts.map(({ layer, faint }) => [layer.rank, faint]),
    [
      [1, true],
      [0, false],
    ],
  );
});

test("a reading is the value at or before a step, of the newest attempt that has one", () => {
  const layers = [
    layerOf(
      [
        [10, 5],
        [20, 6],
      ],
      2,
    ),
    layerOf(
      [
        [0, 1],
        [12, 2],
      ],
      1,
    ),
  ];
  assert.deepEqual(
    [
      reading(layers, 15)?.layer.last[reading(layers, 15).i],
      reading(layers, 4)?.layer.attempt,
      reading(layers, -1),
    ],
    [5, 1, null],
  );
  assert.equal(reading(layers, null)?.i, 1);
});
