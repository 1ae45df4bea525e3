import assert from "node:assert/strict";
import { test } from "node:test";
import { begun, dirty, joined, kept, met, parseTags, tagsText } from "../../web/lib/drafts.js";

test("tags are separated by commas and unique", () => {
  assert.deepEqual(parseTags(" fp16, ablation ,,fp16 "), ["fp16", "ablation"]);
  assert.equal(tagsText(["a", "b"]), "a, b");
  assert.deepEqual(parseTags(tagsText(["x y", "<b>"])), ["x y", "<b>"]);
});

test("a concurrent change is shown to whoever edits, and applied for whoever doesn't", () => {
  const draft = { ...begun("old"), text: "mine" };
  assert.equal(met(draft, "theirs").theirs, "theirs");
  assert.equal(met(begun("old"), "theirs").text, "theirs");
  assert.equal(met(draft, "old").theirs, null);
  assert.equal(met(draft, "mine").theirs, null);
});

test("a conflict is resolved by a choice", () => {
  const draft = met({ ...begun("old"), text: "mine" }, "theirs");
  assert.deepEqual(kept(draft), { seen: "theirs", text: "mine", theirs: null });
  assert.equal(joined(draft).text, "theirs\n\n---\n\nmine");
  assert.equal(joined(draft).seen, "theirs");
  assert.equal(dirty(begun("x")), false);
  assert.equal(dirty(kept(draft)), true);
});
