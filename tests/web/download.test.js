import assert from "node:assert/strict";
import { test } from "node:test";
import { blobOf, fileName } from "../../web/browser/download.js";

test("file names keep letters of any script and drop special characters", () => {
  assert.equal(fileName(["../a b/<img>", "loss"], "csv"), "a_b_img-loss.csv");
  assert.equal(fileName(["学習", "损失"], "png"), "学習-损失.png");
  assert.equal(fileName(["हिन्दी", "e\u0301"], "png"), "हिन्दी-e\u0301.png");
  assert.equal(fileName(["///", ""], "svg"), "tocsin.svg");
  assert.ok(fileName(["x".repeat(400)], "png").length < 80);
});

test("image bytes are decoded from base64 and plain addresses", async () => {
  assert.equal(await blobOf("data:image/svg+xml,%3Csvg%2F%3E").text(), "<svg/>");
  assert.deepEqual(
    [...new Uint8Array(await blobOf("data:image/png;base64,iVBO").arrayBuffer())],
    [0x89, 0x50, 0x4e],
  );
});
