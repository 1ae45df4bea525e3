import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import ts from "typescript";

const ROOT = new URL("../../", import.meta.url);
const text = (path) => readFileSync(new URL(path, ROOT), "utf8");

/** Count the patterns of a file: literals and calls of RegExp. */
function count(path) {
  let found = 0;
  const visit = (node) => {
    if (node.kind === ts.SyntaxKind.RegularExpressionLiteral) found++;
    if ((ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === "RegExp") {
      found++;
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, text(path), ts.ScriptTarget.Latest, true, ts.ScriptKind.JS));
  return found;
}

test("docs/internals/regular-expressions.md counts the patterns of every file in web", () => {
  const files = readdirSync(new URL("web", ROOT), { recursive: true })
    .filter((name) => name.endsWith(".js"))
    .map((name) => `web/${name}`);
  const used = files
    .map((path) => [path, count(path)])
    .filter(([, n]) => n)
    .sort();
  const listed = [
    ...text("docs/internals/regular-expressions.md").matchAll(/^\| `(web\/[\w./]+\.js)` \| (\d+) \|/gm),
  ]
    .map(([, path, n]) => [path, Number(n)])
    .sort();
  assert.deepEqual(listed, used);
});
