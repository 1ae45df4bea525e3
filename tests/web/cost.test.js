import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { createContext, runInContext } from "node:vm";

const source = readFileSync(new URL("../../docs/assets/cost.js", import.meta.url), "utf8");
const { estimate, texts } = runInContext(`${source}; ({ estimate, texts })`, createContext({}));

const FIGURES = {
  machines: { cpu: { amp: { hook: 200, log: 50 } } },
  shared: { connection: 10, step_bytes: 4, value_bytes: 2, sealed: 3, server: 0.01 },
};
const TRAINING = {
  machine: "cpu",
  loop: "amp",
  step: 20,
  processes: 8,
  clips: true,
  logs: 0,
  series: 5,
  hours: 1,
};

test("a log call of the script adds its time to that of the hook", () => {
  const found = estimate(FIGURES, { ...TRAINING, logs: 2 });
  assert.equal(found.us, 300);
  assert.equal(found.percent, 1.5);
});

test("an own gradient norm is counted only for a script that does not compute it", () => {
  assert.equal(estimate(FIGURES, TRAINING).normUs, 0);
  assert.equal(estimate(FIGURES, { ...TRAINING, clips: false }).normUs, 200);
});

test("traffic, disk and server are those of all processes, whose steps are longer by the hook's time", () => {
  const found = estimate(FIGURES, TRAINING);
  const steps = (1000 / 20.2) * 8;
  assert.ok(Math.abs(found.bytesPerS - (80 + steps * 14)) < 1e-6);
  assert.ok(Math.abs(found.bytesPerDay - steps * 5 * 3 * 3600) < 1e-3);
  assert.ok(Math.abs(found.serverPercent - steps * 0.01) < 1e-9);
});

test("the texts have units, and name the gradient norm only where it costs something", () => {
  const found = { us: 200, percent: 1, normUs: 0, bytesPerS: 1500, bytesPerDay: 0, serverPercent: 3.96 };
  const shown = texts(found);
  assert.equal(shown.added, "200 us, 1 % of the step");
  assert.deepEqual([shown.network, shown.disk, shown.server], ["1.5 kB/s", "0 B", "4 % of a core"]);
  assert.match(texts({ ...found, normUs: 300 }).added, /300 us \(1 %\) for the gradient norm/);
});
