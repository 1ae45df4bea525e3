import assert from "node:assert/strict";
import { test } from "node:test";
import { followSize, readView, stepRange, WHOLE, writeView } from "../../web/lib/views/runview.js";

const NONE = WHOLE;

test("the address holds zoom, pinned step and chosen alert", () => {
  const view = { ...NONE, from: 1790.5, to: 1841, at: 1812, alert: "r_1.x.1" };
  assert.deepEqual(readView(writeView(view)), view);
  assert.deepEqual(readView(writeView({ ...NONE, follow: 500 })), { ...NONE, follow: 500 });
  assert.equal(writeView(NONE), "");
});

test("an invalid address shows the whole run", () => {
  for (const search of ["?from=9&to=3", "?from=x&to=y", "?from=1", "?follow=-4", "?follow=NaN", "?at=", ""]) {
    assert.deepEqual(readView(search), NONE, search);
  }
});

test("the whole run has headroom: new steps within it move nothing", () => {
  const { range, home } = stepRange(NONE, 0, 1000, null);
  assert.deepEqual(range, [0, 1040]);
  assert.deepEqual(stepRange(NONE, 0, 1030, home).range, [0, 1040]);
  assert.ok(stepRange(NONE, 0, 1041, home).range[1] > 1041);
});

test("a zoom stays while steps arrive", () => {
  const view = { ...NONE, from: 10, to: 20 };
  assert.deepEqual(stepRange(view, 0, 100, null).range, [10, 20]);
  assert.deepEqual(stepRange(view, 0, 5000, null).range, [10, 20]);
});

test("following shows the newest steps and moves with them", () => {
  const view = { ...NONE, follow: 100 };
  assert.deepEqual(stepRange(view, 0, 1000, null).range, [900, 1002]);
  assert.deepEqual(stepRange(view, 0, 1010, null).range, [910, 1012]);
});

test("a run without steps has a window", () => {
  assert.deepEqual(stepRange(NONE, null, null, null).range, [0, 2]);
});

test("the number of steps to follow is round", () => {
  assert.deepEqual([3, 137, 678.8, 4800, 12345].map(followSize), [50, 100, 700, 5000, 10000]);
});

test("the address holds every choice, whatever a series is called", () => {
  const view = {
    ...WHOLE,
    from: 1,
    to: 9,
    x: "wall",
    smooth: 12,
    smoothing: "gaussian",
    axes: { loss: "log", "a:b,c&d=<é>": "log2" },
    older: [2, 1],
    ranks: "3",
    full: "loss",
    find: "act/|opt/",
    pins: ["x,y", "z"],
    order: ["b"],
    panels: ["formula:a/b - c", "list:x\ny,&z"],
    shut: ["", "sys"],
  };
  assert.deepEqual(readView(writeView(view)), view);
});

test("invalid choices are ignored", () => {
  assert.deepEqual(
    readView("?x=sideways&smooth=7&axis=cubic:loss&axis=loss&attempt=-1&attempt=x&ranks=all"),
    { ...WHOLE, smooth: 0.99 },
  );
});
