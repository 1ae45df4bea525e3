import assert from "node:assert/strict";
import { test } from "node:test";
import { draggedTo, readSizes, resized, sizePairs } from "../../web/lib/views/sizes.js";

const read = (...texts) => readSizes(new URLSearchParams(texts.map((text) => ["size", text])));

test("sizes read as they are written, names with colons too", () => {
  const sizes = { "formula:a - b": { wide: true, height: null }, lr: { wide: false, height: 300 } };
  assert.deepEqual(readSizes(new URLSearchParams(sizePairs(sizes))), sizes);
});

test("an unreadable size is left out, and a height has limits", () => {
  assert.deepEqual(read("3x100:a", "2:a", "2x1x1:a", "2xabc:a", "2x100"), {});
  assert.deepEqual(read("1x5:a", "1x5000:b"), {
    a: { wide: false, height: 80 },
    b: { wide: false, height: 800 },
  });
});

test("a chart with the size of its kind is not listed", () => {
  const sizes = resized({}, "a", { wide: true });
  assert.deepEqual(sizes, { a: { wide: true, height: null } });
  assert.deepEqual(resized(sizes, "a", { wide: false }), {});
});

test("a drag beyond three quarters of the room takes both columns", () => {
  const start = { width: 400, height: 100 };
  assert.deepEqual(draggedTo(start, { x: 250, y: 60 }, 820), { wide: true, height: 160 });
  assert.deepEqual(draggedTo(start, { x: 50, y: -90 }, 820), { wide: false, height: 80 });
});
