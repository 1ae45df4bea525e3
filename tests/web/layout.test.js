import assert from "node:assert/strict";
import { test } from "node:test";
import { layoutText, namesLayout, readLayout, STANDARD } from "../../web/lib/views/layout.js";
import { readView, WHOLE } from "../../web/lib/views/runview.js";

const view = {
  ...WHOLE,
  from: 10,
  to: 20,
  pins: ["val/psnr"],
  panels: ["formula:a - b"],
  order: ["b", "a"],
  sizes: { "val/psnr": { wide: true, height: 240 } },
  shut: ["act"],
};

test("a layout has the charts and their places, not the window", () => {
  const read = readLayout(layoutText(view));
  assert.deepEqual([read.pins, read.panels, read.order], [view.pins, view.panels, view.order]);
  assert.deepEqual([read.sizes, read.shut, "from" in read], [view.sizes, view.shut, false]);
});

test("the standard layout is empty text, and so is its address", () => {
  assert.equal(layoutText(WHOLE), "");
  assert.deepEqual(readLayout(""), STANDARD);
  assert.equal(namesLayout({ ...WHOLE, from: 1, to: 9, at: 3 }), false);
  assert.equal(namesLayout({ ...WHOLE, pins: ["loss"] }), true);
  assert.equal(namesLayout(readView("?layout=standard")), true);
});

test("sections of moved charts survive any name", () => {
  const placed = { "val:psnr/a%": "act:x%3A", b: "" };
  const text = layoutText({ ...WHOLE, placed });
  assert.deepEqual(readLayout(text).placed, placed);
  assert.deepEqual(readView("?in=a&in=act:").placed, {});
});

test("what is not readable in a saved layout is ignored", () => {
  assert.deepEqual(readLayout("panel=pie%3Aa&size=9x9%3Aa&size=x&from=3").sizes, {});
  assert.deepEqual(readLayout("panel=pie%3Aa").panels, []);
  assert.deepEqual(readView("?size=2x99999:a").sizes, { a: { wide: true, height: 800 } });
});
