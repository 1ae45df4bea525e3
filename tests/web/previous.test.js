import assert from "node:assert/strict";
import { test } from "node:test";

import { previousAttempt, previousRun } from "../../web/lib/runs/previous.js";

const row = (id, name, more = {}) => ({ id, name, last_step: 9, archived: false, ...more });

test("the previous attempt is the newest earlier one that took a step", () => {
  const attempts = [
    { attempt: 1, first_step: 0 },
    { attempt: 2, first_step: null },
    { attempt: 3, first_step: null },
  ];
  assert.equal(previousAttempt(attempts), 1);
  assert.equal(previousAttempt(attempts.slice(0, 1)), null);
  assert.equal(previousAttempt([]), null);
});

test("the previous run has the name but for its number, took a step and is not archived", () => {
  const earlier = [
    row("d", "other-3"),
    row("c", "net-4", { last_step: null }),
    row("b", "net-3", { archived: true }),
    row("a", "net 12"),
  ];
  assert.equal(previousRun({ name: "net-5" }, earlier)?.id, "a");
  assert.equal(previousRun({ name: "conv" }, earlier), null);
});
