import assert from "node:assert/strict";
import { test } from "node:test";
import { best, fit } from "../../web/lib/search.js";

const all = ["restorer-fp16", "fleet", "swin-t-fp16-restarts", "Copy the address", "alerts"].map((text) => ({
  text,
  note: "page",
  act: () => {},
}));
const found = (typed) => best(typed, all, 9).map(({ text }) => text);

test("the start of a word ranks above its middle, and both above scattered letters", () => {
  assert.deepEqual(found("fl"), ["fleet"]);
  assert.deepEqual(found("fp16").sort(), ["restorer-fp16", "swin-t-fp16-restarts"]);
  assert.ok(
    fit("rest", "restorer") > fit("rest", "the rest") && fit("rest", "the rest") > fit("rst", "restorer"),
  );
});

test("letters must appear in order", () => {
  assert.deepEqual(found("stfrs"), ["swin-t-fp16-restarts"]);
  assert.deepEqual(found("zzz"), []);
  assert.equal(fit("ba", "ab"), -1);
});

test("an empty query lists all in order, up to the limit", () => {
  assert.equal(found("").length, all.length);
  assert.equal(best("", all, 2).length, 2);
});
