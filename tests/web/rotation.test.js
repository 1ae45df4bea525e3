import assert from "node:assert/strict";
import { test } from "node:test";
import { readFleet, writeFleet } from "../../web/lib/views/fleetview.js";
import { following, kept, readRotation } from "../../web/lib/views/rotation.js";

test("the interval is in the address, within bounds; without a valid one nothing rotates", () => {
  assert.equal(writeFleet(readFleet("?kiosk=1&rotate=30")), "?kiosk=1&rotate=30");
  assert.deepEqual(["0.1", "9e9", "-1", "x", "Infinity", null].map(readRotation), [2, 3600, 0, 0, 0, 0]);
});

test("projects follow each other and begin again", () => {
  const projects = ["a", "b", "c"];
  assert.deepEqual(
    [null, "a", "b", "c"].map((shown) => following(projects, shown)),
    ["a", "b", "c", "a"],
  );
  assert.equal(following([], "a"), null);
});

test("a project that has no runs any more is replaced by the next; the others stay", () => {
  assert.deepEqual(
    [kept(["a", "c"], "b"), kept(["a", "c"], "c"), kept(["a"], "z"), kept([], "a")],
    ["c", "c", "a", null],
  );
});
