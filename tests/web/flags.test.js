import assert from "node:assert/strict";
import { test } from "node:test";
import { eventText, expectedSpans, flagsOf, placeFlags } from "../../web/lib/charts/flags.js";
import { alertOf } from "./layers.js";

const flag = (step, weight, text = "flag") => ({ step, text, severity: "", weight, key: `${step}` });
const place = (flags) =>
  placeFlags(flags, (step) => step, 0, 500).map(({ flag: { step }, mirrored }) => [step, mirrored]);

test("flags never overlap; the more important one stays", () => {
  const spots = placeFlags([flag(100, 1), flag(101, 9), flag(130, 5)], (step) => step, 0, 500).sort(
    (a, b) => a.from - b.from,
  );
  for (let i = 1; i < spots.length; i++) assert.ok(spots[i].from >= spots[i - 1].to);
});

test("a flag at the right edge is mirrored", () => {
  assert.deepEqual(place([flag(490, 1)]), [[490, true]]);
});

test("a flag outside the window is not placed", () => {
  assert.deepEqual(place([flag(-5, 1), flag(600, 1)]), []);
});

test("the chosen alert has the most important flag; pending alerts have none", () => {
  const flags = flagsOf(
    [alertOf({ id: "a" }), alertOf({ id: "b", severity: "info" }), alertOf({ id: "c", state: "pending" })],
    [],
    "b",
  );
  assert.deepEqual(
    flags.sort((a, b) => b.weight - a.weight).map(({ key }) => key),
    ["b", "a"],
  );
});

test("only some kinds of events become flags", () => {
  const event = (kind, data = {}) => ({ id: 1, kind, step: 3, time_ms: 0, attempt: 1, rank: 0, data });
  assert.deepEqual(
    [event("checkpoint"), event("phase", { name: "eval" }), event("attached")].map(eventText),
    ["checkpoint", "eval", ""],
  );
});

test("an announced change is one range of steps for all ranks", () => {
  const event = (steps) => ({
    id: 1,
    kind: "expect",
    step: 7,
    time_ms: 0,
    attempt: 1,
    rank: 0,
    data: { what: "lr", steps },
  });
  assert.deepEqual(expectedSpans([event([10, 20]), event([10, 20]), event(null), event([30]), event("x")]), [
    { severity: "expected", from: 10, to: 20 },
  ]);
});
