import assert from "node:assert/strict";
import { test } from "node:test";
import { storingText } from "../../web/components/header/storing.js";

test("the database's own words stand in one sentence, and what becomes of the records in the next", () => {
  const told = storingText("database or disk is full.\n");
  assert.equal(
    told,
    "The server cannot store new records: database or disk is full. " +
      "Training continues; records are buffered on disk until it can.",
  );
});
