import assert from "node:assert/strict";
import { test } from "node:test";
import { H, shapeOf, stepsOf, stretchesOf, outcomeOf } from "../../web/lib/rules/rulestrip.js";

const layer = (values, first = 0) => ({
  x: values.map((_, i) => first + i),
  x1: values.map((_, i) => first + i),
  min: values,
  max: values,
  mean: values,
  nan: values.map((v) => Number(Number.isNaN(v))),
  pinf: values.map(() => 0),
  ninf: values.map(() => 0),
});
const firing = (step, resolved_step, healthy = true) => ({
  severity: "warning",
  subject: "loss",
  onset_step: step,
  step,
  resolved_step,
  summary: "",
  healthy,
});

test("alerts start where they fired, and an open one extends to the end", () => {
  const found = stretchesOf([firing(50, null), firing(10, 20)], [0, 100]);
  assert.deepEqual(
    found.map(({ from, to, open }) => [from, to, open]),
    [
      [0.1, 0.2, false],
      [0.5, 1, true],
    ],
  );
  assert.deepEqual(
    stretchesOf([firing(5, 5)], [5, 5]).map(({ from, to }) => [from, to]),
    [[0, 0]],
  );
});

test("the line breaks at non-finite values and stays in its box", () => {
  const { line, low, high } = shapeOf([layer([1, 2, NaN, 3])], [0, 3], null);
  assert.equal(line.match(/M/g).length, 2);
  assert.deepEqual([low, high], [1, 3]);
  for (const [, y] of line.matchAll(/ ([\d.]+)/g)) assert.ok(Number(y) >= 0 && Number(y) <= H);
  assert.equal(shapeOf([layer([NaN])], [0, 1], 5).line, "");
  assert.equal(shapeOf([layer([1, NaN, 3, NaN])], [0, 3], null).bad.match(/M/g).length, 2);
  assert.equal(shapeOf([layer([1])], [0, 1], null).bad, "");
});

test("a limit is drawn if it is in range", () => {
  assert.notEqual(shapeOf([layer([1, 2])], [0, 1], 3).limit, null);
  assert.equal(shapeOf([layer([1, 2])], [0, 1], 1e9).limit, null);
});

test("steps of all layers, or none", () => {
  assert.deepEqual(stepsOf([layer([1, 2], 5), layer([1], 2)]), [2, 6]);
  assert.equal(stepsOf([]), null);
});

const tested = (firings, series = ["loss"], incidents = []) => ({
  ...{ run: "r", name: "a", project: "p", steps: 1, healthy_steps: 1, alerts_left_out: 0, cut: "" },
  ...{ series, firings, incidents },
});
const INCIDENT = {
  ...{ id: "i", rule: "loss-divergence", summary: "Loss diverged", severity: "critical" },
  ...{ onset_step: 3, end_step: null, own: false },
};

test("the result of a run is described in words", () => {
  assert.equal(outcomeOf(tested([])).word, "No alerts");
  assert.equal(outcomeOf(tested([firing(1, 2), firing(3, 4, false)])).word, "1 of 2 on healthy steps");
  assert.equal(outcomeOf(tested([firing(3, 4, false)])).word, "Matches other alerts");
});

test("a series that a run lacks is absent, which is not the same as no alert", () => {
  assert.equal(outcomeOf(tested([], [])).word, "Series absent");
  assert.equal(outcomeOf({ ...tested([]), series: undefined }).word, "No alerts");
});

test("a firing during an incident is a real problem, and links to it", () => {
  const real = { ...firing(3, 4, false), incident: "i" };
  const found = outcomeOf(tested([real], ["loss"], [INCIDENT]));
  assert.deepEqual([found.word, found.text, found.incident], ["Real problem", "Loss diverged", "i"]);
  assert.equal(outcomeOf(tested([real], ["loss"], [{ ...INCIDENT, own: true }])).word, "Fired then, too");
  const mixed = outcomeOf(tested([real, firing(1, 2)], ["loss"], [INCIDENT]));
  assert.equal(mixed.word, "1 of 2 outside incidents");
  assert.equal(outcomeOf(tested([], ["loss"], [INCIDENT])).text, "but: Loss diverged");
});
