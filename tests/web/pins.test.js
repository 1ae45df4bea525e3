import assert from "node:assert/strict";
import { test } from "node:test";
import { readPins, writePins } from "../../web/data/pins.js";

/** A browser's storage. */
const storage = (kept = {}) => ({
  kept,
  getItem: (key) => kept[key] ?? null,
  setItem: (key, value) => {
    kept[key] = value;
  },
});

test("pins are restored", () => {
  const place = storage();
  writePins(place, new Set(["a", "b"]));
  assert.deepEqual([...readPins(place)], ["a", "b"]);
});

test("corrupt or blocked storage is treated as empty", () => {
  for (const spoilt of ["{", "3", '{"a":1}', "[1,null]"]) {
    assert.equal(readPins(storage({ "tocsin.pins": spoilt })).size, 0, spoilt);
  }
  const forbidden = {
    getItem() {
      throw new Error("denied");
    },
    setItem() {
      throw new Error("denied");
    },
  };
  assert.equal(readPins(forbidden).size, 0);
  writePins(forbidden, new Set(["a"]));
});

test("pins are limited: the newest stay", () => {
  const place = storage();
  writePins(place, new Set(Array.from({ length: 500 }, (_, i) => String(i))));
  assert.deepEqual([readPins(place).size, readPins(place).has("499")], [200, true]);
});
