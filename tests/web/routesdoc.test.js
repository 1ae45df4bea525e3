import assert from "node:assert/strict";
import { test } from "node:test";
import {
  added,
  changed,
  freeName,
  moved,
  newMuteTime,
  newRoute,
  removed,
  renamedMuteTime,
  reordered,
  routeSentence,
  withOrWithout,
} from "../../web/lib/alerts/routesdoc.js";

const EMPTY = { routes: [], inhibitions: [], mute_times: [] };

test("a change leaves the previous document unchanged, so it can be undone", () => {
  const one = added(EMPTY, "routes", newRoute(EMPTY));
  const two = changed(one, "routes", 0, { name: "b" });
  assert.deepEqual(
    [one.routes[0].name, two.routes[0].name, removed(two, "routes", 0).routes.length, EMPTY.routes.length],
    ["new route", "b", 0, 0],
  );
});

test("new parts get unused names", () => {
  const doc = added(EMPTY, "routes", newRoute(EMPTY));
  assert.equal(newRoute(doc).name, "new route 2");
  assert.equal(freeName("a", ["a", "a 2"]), "a 3");
});

test("a route moves up and down, and not beyond the ends", () => {
  assert.deepEqual(
    [moved(["a", "b", "c"], 2, 0), moved(["a", "b"], 0, 2), moved(["a", "b"], 0, -1)],
    [
      ["c", "a", "b"],
      ["a", "b"],
      ["a", "b"],
    ],
  );
  const doc = {
    ...EMPTY,
    routes: [
      { ...newRoute(EMPTY), name: "a" },
      { ...newRoute(EMPTY), name: "b" },
    ],
  };
  assert.deepEqual(
    reordered(doc, "routes", 1, 0).routes.map(({ name }) => name),
    ["b", "a"],
  );
});

test("routes follow a renamed mute time", () => {
  const doc = {
    ...EMPTY,
    routes: [{ ...newRoute(EMPTY), mute_times: ["nights", "weekend"] }],
    mute_times: [newMuteTime(EMPTY, "UTC")],
  };
  assert.deepEqual(renamedMuteTime(doc, 0, "dark").routes[0].mute_times, ["dark", "weekend"]);
});

test("a route is described in one line", () => {
  const route = { ...newRoute(EMPTY), channels: ["phone"], continue: true, mute_times: ["nights"] };
  assert.equal(
    routeSentence(route, (s) => `${s / 3600} h`),
    'severity="critical" → phone, repeats every 4 h, muted during nights, then continues to the next',
  );
  assert.deepEqual(
    [withOrWithout(["a"], "b", true), withOrWithout(["a"], "a", true), withOrWithout(["a"], "a", false)],
    [["a", "b"], ["a"], []],
  );
});
