import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldOf, sentence } from "../../web/lib/fielderror.js";

test("an error is shown at the field it names, or at the one that contains it", () => {
  const names = ["routes[0].matchers", "routes[0].name", "routes[10].name", "reason"];
  assert.equal(fieldOf("routes[0].matchers[3]", names), "routes[0].matchers");
  assert.equal(fieldOf("routes[10].name", names), "routes[10].name");
  assert.equal(fieldOf("reasons", names), null);
  assert.equal(fieldOf(undefined, names), null);
});

test("the sentence says what was expected and what was given, in limited length", () => {
  const error = (problem) => sentence({ message: "m", problem });
  assert.equal(error({ expected: "a text", got: "" }), "Expected a text, got nothing.");
  assert.equal(error({ expected: "a list", got: [1] }), "Expected a list, got [1].");
  assert.equal(error({}), "m");
  assert.ok(error({ expected: "x", got: "y".repeat(5000) }).length < 300);
});
