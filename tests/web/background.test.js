import assert from "node:assert/strict";
import { test } from "node:test";
import { background } from "../../web/lib/charts/background.js";
import { STEPS } from "../../web/lib/charts/timeaxis.js";
import { alertOf } from "./layers.js";

const behind = (alerts, more = {}) =>
  background(
    { range: [0, 100], last: 100, alerts, events: [], chosen: null, restarts: [], timeline: STEPS, ...more },
    true,
  );

test("an alert that was firing when its run ended keeps its lines and its tint", () => {
  const { bands, edges } = behind([alertOf({ state: "ended", resolved_step: 90 })]);
  assert.deepEqual(
    edges.map(({ x, fired }) => [x, fired]),
    [
      [10, false],
      [20, true],
    ],
  );
  assert.deepEqual(
    bands.map(({ from, to }) => [from, to]),
    [[10, 90]],
  );
});

test("a resolved alert keeps its tint, and has lines only while it is chosen", () => {
  const resolved = alertOf({ state: "resolved", resolved_step: 30 });
  assert.deepEqual(behind([resolved]).edges, []);
  assert.equal(behind([resolved]).bands.length, 1);
  assert.equal(behind([resolved], { chosen: resolved.id }).edges.length, 2);
});

test("restarts are lines too, and the lines of alerts are limited", () => {
  const many = Array.from({ length: 40 }, () => alertOf({ fired_step: 10 }));
  const { edges } = behind(many, { restarts: [50] });
  assert.equal(edges.filter(({ severity }) => severity === "restart").length, 1);
  assert.equal(edges.filter(({ severity }) => severity === "critical").length, 12);
});

test("an info alert is a small mark where it began, and has lines while it is chosen", () => {
  const info = alertOf({ severity: "info" });
  assert.deepEqual(
    behind([info]).edges.map(({ x, small }) => [x, small]),
    [[10, true]],
  );
  assert.equal(behind([info], { chosen: info.id }).edges.length, 2);
});
