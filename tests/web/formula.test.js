import assert from "node:assert/strict";
import { test } from "node:test";
import { FormulaError, LONGEST, readFormula } from "../../web/lib/charts/formula.js";

const KNOWN = ["loss", "train/loss", "val/loss", "loss2", "mAP50(B)", "val loss", "log"];
const at = (text, values) => {
  const { names, value } = readFormula(text, KNOWN);
  return value(names.map((name) => values[name]));
};
const problem = (text) => {
  try {
    readFormula(text, KNOWN);
  } catch (error) {
    assert.ok(error instanceof FormulaError);
    return [error.message, error.at];
  }
  return null;
};

test("a slash within a name is part of the name; elsewhere it divides", () => {
  assert.equal(at("train/loss - val/loss", { "train/loss": 5, "val/loss": 2 }), 3);
  assert.equal(at("train/loss/val/loss", { "train/loss": 6, "val/loss": 2 }), 3);
});

test("products bind more than sums, from the left; signs and parentheses", () => {
  for (const [text, result] of [
    ["loss - 2 - 1", 7],
    ["2 + loss * 3", 32],
    ["(2 + loss) * 3", 36],
    ["-loss / 4 / 5", -0.5],
    ["--loss + 1.5e1", 25],
    ["loss - -.5", 10.5],
  ]) {
    assert.equal(at(text, { loss: 10 }), result, text);
  }
});

test("functions; a series may have the name of one", () => {
  assert.equal(at("sqrt(loss) + abs(-3) + exp(0)", { loss: 16 }), 8);
  assert.equal(at("log(loss) * log", { loss: Math.E, log: 2 }), 2);
});

test("names with spaces and parentheses, the longest that fits", () => {
  assert.equal(at("mAP50(B) + val loss + loss2", { "mAP50(B)": 1, "val loss": 2, loss2: 4 }), 7);
});

test("NaN and Inf go through as in IEEE 754", () => {
  assert.ok(Number.isNaN(at("loss - loss", { loss: Infinity })));
  assert.equal(at("1 / loss", { loss: 0 }), Infinity);
  assert.ok(Number.isNaN(at("log(loss)", { loss: -1 })));
});

test("what is not understood is said, with its place", () => {
  assert.deepEqual(problem("loss + los"), ["This run reports no metric “los”.", 7]);
  assert.deepEqual(problem("(loss"), ["This parenthesis is not closed.", 0]);
  assert.deepEqual(problem("loss loss2"), ["Expected an operator, got “l”.", 5]);
  assert.deepEqual(problem("loss *"), ["Expected a metric or a number, got the end of the formula.", 6]);
  assert.deepEqual(problem("1 + 2"), ["A formula needs at least one metric.", 5]);
  assert.match(problem("alert(loss)")[0], /no metric “alert”/);
  assert.match(problem("loss.constructor")[0], /no metric “loss.constructor”/);
});

test("long and deep formulas are refused", () => {
  assert.match(problem(`loss${" + loss".repeat(LONGEST)}`)[0], /at most 300/);
  assert.match(problem(`${"(".repeat(60)}loss${")".repeat(60)}`)[0], /At most 50/);
});
