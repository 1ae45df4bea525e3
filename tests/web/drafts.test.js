import assert from "node:assert/strict";
import { test } from "node:test";
import { begun, dirty, joined, kept, met, parseTags, tagsText } from "../../web/lib/drafts.js";

test("tags are what stands between commas, each once", () => {
  assert.deepEqual(parseTags(" fp16, ablation ,,fp16 "), ["fp16", "ablation"]);
  assert.equal(tagsText(["a", "b"]), "a, b");
  assert.deepEqual(parseTags(tagsText(["x y", "<b>"])), ["x y", "<b>"]);
});

test("what somebody else wrote meanwhile is shown to whoever wrote too, and taken by whoever did not", () => {
  const draft = { ...begun("old"), text: "mine" };
  assert.equal(met(draft, "theirs").theirs, "theirs");
  assert.equal(met(begun("old"), "theirs").text, "theirs");
  assert.equal(met(draft, "old").theirs, null);
  assert.equal(met(draft, "mine").theirs, null);
});

test("a conflict ends by a choice, and then what was read is what stands there", () => {
  const draft = met({ ...begun("old"), text: "mine" }, "theirs");
  assert.deepEqual(kept(draft), { seen: "theirs", text: "mine", theirs: null });
  assert.equal(joined(draft).text, "theirs\n\n---\n\nmine");
  assert.equal(joined(draft).seen, "theirs");
  assert.equal(dirty(begun("x")), false);
  assert.equal(dirty(kept(draft)), true);
});
