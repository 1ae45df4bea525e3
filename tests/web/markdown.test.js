import assert from "node:assert/strict";
import { test } from "node:test";
import { inline, markdown } from "../../web/lib/markdown.js";

test("headings, lists, quotes, code, tables and rules are told apart", () => {
  const source = "# T\n\ntext\n\n- a\n- b\n\n1. x\n\n> q\n\n```py\ncode *no*\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---";
  assert.deepEqual(markdown(source).map((block) => block.kind), ["heading", "paragraph", "list", "list", "quote", "code", "table", "rule"]);
});

test("HTML is text, letter by letter", () => {
  const hostile = '<img src=x onerror="alert(1)"> <script>x</script>';
  assert.deepEqual(markdown(hostile), [{ kind: "paragraph", parts: [{ kind: "text", text: hostile }] }]);
});

test("only addresses that show a page become links", () => {
  for (const bad of ["javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,x", "vbscript:x", "//evil.example"]) assert.deepEqual(inline(`[a](${bad})`).map((part) => part.kind), ["text"], bad);
  for (const good of ["https://example.org/a", "/runs/x", "#top"]) assert.deepEqual(inline(`[a](${good})`), [{ kind: "link", text: "a", href: good }], good);
});

test("strong, emphasis and code are read within a line", () => {
  assert.deepEqual(inline("a **b** *c* `d*e*`").map((part) => part.kind), ["text", "strong", "text", "em", "text", "code"]);
});

test("endless nesting and length end", () => {
  assert.ok(markdown(">".repeat(5000) + " x").length >= 1);
  assert.ok(markdown("*".repeat(50_000) + "[".repeat(50_000)).length >= 1);
});

test("nothing that was written is lost from a paragraph", () => {
  const text = "2 * 3 * 4 and a_b_c [x] (y) **open";
  assert.equal(inline(text).map((part) => part.text).join(""), text);
});
