import assert from "node:assert/strict";
import { test } from "node:test";
import { Configs } from "../../web/data/configs.js";

test("settings are found whatever their case, loaded once, and again for a new run", async () => {
  let [requests, now] = [0, 0];
  const items = [{ id: "a", config: { Net: { depth: 3 } } }];
  const api = { configs: async () => ({ items: items.slice(0, ++requests) }) };
  const configs = new Configs(api, () => now);
  items.push({ id: "b", config: { lr: 0.1 } });
  assert.equal(await configs.load(["a"]), true);
  assert.equal(await configs.load(["a", "b"]), false);
  assert.deepEqual([configs.get("a", "net.DEPTH"), configs.get("b", "lr")], [3, undefined]);
  now = 6000;
  assert.equal(await configs.load(["a", "b"]), true);
  assert.deepEqual([configs.get("b", "lr"), configs.keys, requests], [0.1, ["Net.depth", "lr"], 2]);
});
