// Every page and panel says at its head where its data comes from and where it draws.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const WEB = new URL("../../web/", import.meta.url);
const WORDS = { pages: ["Data: ", "State: ", "View: "], panels: ["Data: ", "Draws: "] };
const MODULE = /\b(?:lib|browser|data|components|panels|pages)\/[\w/-]+\.js/g;

/** @param {string} path below web/ */
function headOf(path) {
  const text = readFileSync(new URL(path, WEB), "utf8");
  return text.startsWith("/**") ? text.slice(0, text.indexOf("*/")).replaceAll("\n *", " ") : "";
}

const modules = Object.keys(WORDS).flatMap((folder) =>
  readdirSync(new URL(folder, WEB))
    .filter((name) => name.endsWith(".js"))
    .map((name) => `${folder}/${name}`),
);

test("the head of each page names its data, state and view, and of each panel its data", () => {
  const wanted = (/** @type {string} */ path) => WORDS[/** @type {keyof WORDS} */ (path.split("/")[0])];
  assert.ok(modules.length > 20);
  assert.deepEqual(
    modules.filter((path) => !wanted(path).every((word) => headOf(path).includes(word))),
    [],
  );
});

test("the modules named there exist", () => {
  const named = modules.flatMap((path) => [...headOf(path).matchAll(MODULE)].map(([found]) => found));
  assert.ok(named.length > 20);
  assert.deepEqual(
    named.filter((path) => !existsSync(new URL(path, WEB))),
    [],
  );
});
