import assert from "node:assert/strict";
import { test } from "node:test";
import { BLANK } from "../../web/lib/rules/ruledraft.js";
import { readAloud, relativeRules, sentenceOf } from "../../web/lib/rules/ruletext.js";

const draft = (change) => ({ ...BLANK, limit: "5", ...change });

test("a rule is read aloud", () => {
  assert.equal(
    readAloud(draft({}), "all runs"),
    "Fires a warning alert when the mean of loss over 20 steps is above 5. " +
      "It resolves 50 steps after it is at or below 5. Applies to all runs.",
  );
});

test("durations, the level to resolve at, the scope and a glob are part of the sentence", () => {
  const changed = { series: "val/*", reducer: "value", comparison: "<", for: "2 h", recover: "6" };
  const lists = { projects: ["a", "b"], runs: [], tags: [] };
  assert.equal(
    sentenceOf(draft({ ...changed, severity: "info", keep_firing_for: "0 steps", enabled: false }), lists),
    "Fires an info alert when the newest value of val/* is below 5, and has been for 2 h. " +
      "It resolves as soon as it is at 6 or higher. Applies to project a or b. " +
      "Each matching series is checked separately. The rule is off.",
  );
});

test("an absent series, non-finite values and a rate are read aloud", () => {
  const text = (change) => readAloud(draft(change), "all runs").split(". ")[0];
  assert.match(text({ reducer: "absent", window: "5 min" }), /when loss has had no value for 5 min$/);
  assert.match(text({ reducer: "nonfinite" }), /the number of non-finite values of loss within 20 steps is/);
  assert.match(text({ reducer: "rate", window: "5 min" }), /the change of loss per second over 5 min is/);
  assert.match(
    text({ reducer: "ratio" }),
    /newest value of loss divided by its mean over 20 steps is above 5/,
  );
  assert.match(text({ limit: "" }), /is above the limit$/);
});

test("a fixed limit of a quantity that depends on the model is doubtful", () => {
  assert.deepEqual(relativeRules(draft({})), ["loss-spike", "loss-divergence"]);
  assert.deepEqual(relativeRules(draft({ series: "grad_norm/D" }))?.[0], "grad-explosion");
  assert.deepEqual(relativeRules(draft({ series: "val_loss" }))?.[0], "overfitting");
  assert.deepEqual(relativeRules(draft({ series: "step_time" })), ["throughput-regression"]);
});

test("limits with the same meaning in every run are fine", () => {
  for (const change of [
    { series: "val/psnr" },
    { series: "scale" },
    { series: "glossary" },
    { reducer: "change" },
    { reducer: "ratio" },
    { reducer: "nonfinite" },
    { limit: "0" },
    { limit: "five" },
  ]) {
    assert.equal(relativeRules(draft(change)), null, JSON.stringify(change));
  }
});
