import assert from "node:assert/strict";
import { test } from "node:test";
import { base64url, browserName, obstacle } from "../../web/lib/push.js";

const READY = { secure: true, supported: true, permission: "default", homeScreenOnly: false };

test("a browser that can subscribe has no obstacle", () => {
  assert.equal(obstacle(READY), "");
  assert.equal(obstacle({ ...READY, permission: "granted" }), "");
});

test("each obstacle says what to do", () => {
  const why = (change) => obstacle({ ...READY, ...change });
  assert.match(why({ secure: false, supported: false }), /^Web push needs HTTPS or localhost/);
  assert.match(why({ homeScreenOnly: true, supported: false }), /Add to Home Screen/);
  assert.match(why({ supported: false }), /does not support/);
  assert.match(why({ permission: "denied" }), /blocked for this address/);
});

test("a browser is named as people call it", () => {
  const chrome = "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36";
  assert.equal(browserName(chrome), "Chrome on Android");
  assert.equal(browserName(`${chrome} Edg/140.0`), "Edge on Android");
  const safari = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1";
  assert.equal(browserName(safari), "Safari on iPhone");
  assert.equal(browserName("curl/8"), "Browser on an unknown system");
});

test("keys are written as the server writes them", () => {
  assert.equal(base64url(new Uint8Array([251, 255, 254, 0]).buffer), "-__-AA");
  assert.equal(base64url(null), "");
});
