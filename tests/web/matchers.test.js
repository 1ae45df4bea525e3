import assert from "node:assert/strict";
import { test } from "node:test";
import { equals, labelsOf, linesOf, quoted, toggled } from "../../web/lib/alerts/matchers.js";
import { alertOf } from "./layers.js";

test("quotes and backslashes in a value are escaped", () => {
  assert.equal(quoted('a"b\\c'), '"a\\"b\\\\c"');
  assert.equal(equals("run", '<img src="x">'), 'run="<img src=\\"x\\">"');
});

test("a matcher is added and removed without changing others", () => {
  const rule = equals("rule", "loss-spike");
  assert.equal(toggled("", rule), rule);
  assert.equal(toggled(`a="b"\n\n ${rule} `, rule), 'a="b"');
  assert.deepEqual(linesOf(" a=b \n\n c=d"), ["a=b", "c=d"]);
});

test("a silence of an alert starts with its rule and run; empty labels are not offered", () => {
  const labels = labelsOf(alertOf({ rule: "loss-spike", run_id: "r_1", subject: "" }));
  assert.deepEqual(
    labels.filter(({ usual }) => usual).map(({ name }) => name),
    ["rule", "run_id"],
  );
  assert.ok(!labels.some(({ name }) => name === "subject"));
});
