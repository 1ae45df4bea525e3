import assert from "node:assert/strict";
import { test } from "node:test";
import { storingText } from "../../web/components/header/storing.js";

test("the strip gives the database's error, and what happens to the records", () => {
  const told = storingText("database or disk is full.\n");
  assert.equal(
    told,
    "The server cannot store new records: database or disk is full. " +
      "Training continues; records are buffered on disk until it can.",
  );
});
