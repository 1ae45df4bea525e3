import assert from "node:assert/strict";
import { test } from "node:test";
import {
  numberOfRun,
  quantities,
  quantityText,
  readQuantity,
  textOfRun,
} from "../../web/lib/charts/quantity.js";

const run = {
  id: "r",
  name: "r",
  ink: "--run-1",
  config: { lr: 1e-3, model: { name: "swin", wide: true }, steps: 20_000 },
  metrics: { "val/loss": { last: "NaN", min: 0.5, max: 2, n: 3, nonfinite: 1, step: 4 } },
};
const read = (text) => numberOfRun(readQuantity(text), run);

test("a quantity reads as it is written", () => {
  for (const text of ["config.model.name", "last(loss)", "min(val/loss)", "max(a b(c))"]) {
    assert.equal(quantityText(readQuantity(text)), text);
  }
  assert.equal(quantityText(readQuantity(" loss ")), "last(loss)");
  for (const text of ["", "config.", "min()"]) assert.equal(readQuantity(text), null);
});

test("a metric has its last, smallest or largest value, NaN included; a missing one none", () => {
  assert.deepEqual(["val/loss", "min(val/loss)", "max(val/loss)", "last(acc)"].map(read), [
    NaN,
    0.5,
    2,
    null,
  ]);
});

test("a setting is a number if it is one", () => {
  assert.deepEqual(["config.lr", "config.steps", "config.model.name", "config.none"].map(read), [
    1e-3,
    20_000,
    null,
    null,
  ]);
  assert.equal(textOfRun(readQuantity("config.model.name"), run), "swin");
});

test("what can be chosen are the values of each metric, and each setting", () => {
  assert.deepEqual(quantities(["acc"], [{ lr: 1 }, { lr: 2, b: 1 }]), [
    "last(acc)",
    "min(acc)",
    "max(acc)",
    "config.b",
    "config.lr",
  ]);
});
