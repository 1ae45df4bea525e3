import assert from "node:assert/strict";
import { test } from "node:test";
import { pointed } from "../../web/lib/charts/pointed.js";
import { heldReadout, meanReadout } from "../../web/lib/charts/readout.js";
import { thin } from "../../web/lib/charts/buckets.js";
import { layerOf } from "./layers.js";

const LOSS = { title: "Loss", color: "--run-1", read: meanReadout };
const RATE = { title: "lr", color: "--run-1", read: heldReadout };
const plain = (rows) => rows.map(({ name, text, soft, bad }) => [name, text, soft, bad]);

test("a record has its value, a bucket its mean, its range and its steps", () => {
  const layer = layerOf([
    [0, 1],
    [1, 2],
    [2, 6],
  ]);
  const one = pointed(LOSS, [layer], 1, {});
  assert.deepEqual([plain(one.rows), one.note], [[["Loss", "2", "", ""]], ""]);
  const bucket = pointed(LOSS, [thin(layer, 0, 10, 1)], 1, {});
  assert.deepEqual(plain(bucket.rows), [["Loss", "3", "1 … 6", ""]]);
  assert.equal(bucket.note, "mean of 3 records, steps 0 to 2");
});

test("non-finite values have their names, alone and beside others", () => {
  const layer = layerOf([
    [0, NaN],
    [1, 2],
    [2, Infinity],
    [3, -Infinity],
  ]);
  const texts = [0, 2, 3].map((step) => pointed(LOSS, [layer], step, {}).rows[0].text);
  assert.deepEqual(texts, ["NaN", "+Inf", "−Inf"]);
  const [row] = pointed(LOSS, [thin(layer, 0, 10, 1)], 1, {}).rows;
  assert.deepEqual([row.text, row.bad], ["2", "NaN · +Inf · −Inf"]);
});

test("a held value has the range of its bucket, and its faults", () => {
  const layer = layerOf([
    [0, 4],
    [1, NaN],
    [2, 2],
  ]);
  const { rows, note } = pointed(RATE, [thin(layer, 0, 10, 1)], 2, {});
  assert.deepEqual(plain(rows), [["lr", "2", "2 … 4", "NaN"]]);
  assert.equal(note, "last of 3 records, steps 0 to 2");
});

test("a step without a record shows the one before it, and says so", () => {
  const layer = layerOf([
    [10, 1],
    [20, 2],
  ]);
  assert.equal(pointed(LOSS, [layer], 15, {}).note, "recorded at step 10");
  assert.equal(pointed(LOSS, [layer], 5, {}), null);
});

test("a smoothed value comes first, then the raw one; a fault is never hidden by it", () => {
  const layer = layerOf([
    [0, 1],
    [1, NaN],
  ]);
  assert.deepEqual(plain(pointed(LOSS, [layer], 0, {}, 1.5).rows), [["Loss", "1.500", "raw 1", ""]]);
  assert.equal(pointed(LOSS, [layer], 1, {}, 1.5).rows[0].text, "NaN");
});

test("older attempts and other ranks have rows if they have lines", () => {
  const [second, first] = [2, 1].map((attempt) => layerOf([[0, attempt]], attempt));
  const names = (look, layers) => pointed(LOSS, layers, 0, look).rows.map(({ name, text }) => [name, text]);
  assert.deepEqual(names({}, [second, first]), [["Loss · attempt 2", "2"]]);
  assert.deepEqual(names({ older: [1] }, [second, first]).at(-1), ["attempt 1", "1"]);
  const ranks = [0, 1].map((rank) => layerOf([[0, rank + 3]], 1, rank));
  assert.deepEqual(names({ ranks: "each" }, ranks).at(-1), ["rank 1", "4"]);
  assert.deepEqual(names({ ranks: "band" }, ranks).at(-1), ["all 2 ranks", "3 … 4"]);
});
