import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldOf, sentence } from "../../web/lib/fielderror.js";

test("an error goes to the field it names, or the one in which its place lies", () => {
  const names = ["routes[0].matchers", "routes[0].name", "routes[10].name", "reason"];
  assert.equal(fieldOf("routes[0].matchers[3]", names), "routes[0].matchers");
  assert.equal(fieldOf("routes[10].name", names), "routes[10].name");
  assert.equal(fieldOf("reasons", names), null);
  assert.equal(fieldOf(undefined, names), null);
});

test("the sentence says what was expected and what came, and is no longer than it helps", () => {
  const error = (problem) => sentence({ message: "m", problem });
  assert.equal(error({ expected: "a text", got: "" }), "Expected a text, got nothing.");
  assert.equal(error({ expected: "a list", got: [1] }), "Expected a list, got [1].");
  assert.equal(error({}), "m");
  assert.ok(error({ expected: "x", got: "y".repeat(5000) }).length < 300);
});
