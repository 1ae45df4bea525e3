// Every export of web/ is used: imported by another module, or by a test if its own module needs it too.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const ROOT = new URL("../../", import.meta.url);
const scripts = (/** @type {string} */ folder) =>
  readdirSync(new URL(folder, ROOT), { recursive: true })
    .map((name) => new URL(`${folder}/${name}`, ROOT))
    .filter((url) => url.pathname.endsWith(".js"));
const IMPORTS = [
  /import(?: (?:\w+,? ?)?\{([^}]*)\})? ?from "(\.[^"]+)"/g,
  /export \{([^}]*)\} from "(\.[^"]+)"/g,
];
const LATER = [
  /\{([^{}]*)\} = await import\("(\.[^"]+)"\)/g,
  /import\("(?<path>\.[^"]+)"\)\s*\.then\(\s*\(\{(?<names>[^}]*)\}\)/g,
];
const MEMBER = /import\("(\.[^"]+)"\)\)?\.(\w+)/g;
const NAMESPACE = /import \* as (\w+) from "(\.[^"]+)"/g;

/** Names that the module at `url` imports, as `address#name`. */
function importsOf(url, text) {
  const at = (path, name) => `${new URL(path, url)}#${name}`;
  const named = IMPORTS.flatMap((pattern) => [...text.matchAll(pattern)]).flatMap(([, names, path]) =>
    (names ?? "").split(",").map((name) => at(path, name.trim().split(" as ")[0])),
  );
  const later = [
    ...[...text.matchAll(LATER[0])].map(([, names, path]) => ({ names, path })),
    ...[...text.matchAll(LATER[1])].map(({ groups }) => groups),
  ].flatMap(({ names, path }) => names.split(",").map((name) => at(path, name.trim())));
  const members = [...text.matchAll(MEMBER)].map(([, path, name]) => at(path, name));
  const spaces = [...text.matchAll(NAMESPACE)].flatMap(([, space, path]) =>
    [...text.matchAll(new RegExp(`\\b${space}\\.(\\w+)`, "g"))].map(([, name]) => at(path, name)),
  );
  return [...named, ...later, ...members, ...spaces];
}

/** Names that a module exports, and whether it uses them too. */
const exportsOf = (text) =>
  [...text.matchAll(/^export (?:async )?(?:function\*?|class|const|let) (\w+)/gm)].map(([, name]) => ({
    name,
    own: text.match(new RegExp(`\\b${name}\\b`, "g")).length > 1,
  }));

const read = (/** @type {URL} */ url) => readFileSync(url, "utf8");
const imported = new Set(scripts("web").flatMap((url) => importsOf(url, read(url))));
const tested = new Set(scripts("tests/web").flatMap((url) => importsOf(url, read(url))));

test("every export is imported", () => {
  const unused = scripts("web").flatMap((url) =>
    exportsOf(read(url))
      .filter(({ name, own }) => !imported.has(`${url}#${name}`) && !(own && tested.has(`${url}#${name}`)))
      .map(({ name }) => `${url.pathname.slice(ROOT.pathname.length)}: ${name}`),
  );
  assert.ok(imported.size > 500);
  assert.deepEqual(unused, []);
});
