import assert from "node:assert/strict";
import { test } from "node:test";
import { bucketNote, bucketSentence } from "../../web/lib/charts/bucketnote.js";
import { picture } from "../../web/lib/charts/picture.js";
import { layerOf } from "./layers.js";

const LAYER = layerOf(Array.from({ length: 1000 }, (_, step) => [step, step % 7]));
const drawn = (range, drawing = { axis: "linear" }) => picture(drawing, [LAYER], [], range, 100, false);

test("a chart with fewer pixels than values says how many values a point stands for", () => {
  assert.equal(bucketNote(drawn([0, 999])), "mean of up to 10 values, band: min–max");
  assert.match(bucketSentence(drawn([0, 999])), /the mean of up to 10 values; the band spans/);
});

test("at full resolution there is no note", () => {
  assert.deepEqual([bucketNote(drawn([0, 40])), bucketSentence(drawn([0, 40]))], ["", ""]);
});

test("a held value is the last of its bucket", () => {
  assert.match(bucketNote(drawn([0, 999], { axis: "linear", steps: true })), /^last of up to 10/);
});
