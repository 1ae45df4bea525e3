import assert from "node:assert/strict";
import { test } from "node:test";
import { laidOut, layoutText, readLayout, STANDARD } from "../../web/lib/views/layout.js";
import { readView, WHOLE, writeView } from "../../web/lib/views/runview.js";

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
});

test("sections of moved charts survive any name", () => {
  const placed = { "val:psnr/a%": "act:x%3A", b: "" };
  const text = layoutText({ ...WHOLE, placed });
  assert.deepEqual(readLayout(text).placed, placed);
  assert.deepEqual(readView("?in=a&in=act:").placed, {});
});

const opened = (/** @type {string} */ search, /** @type {string} */ text) =>
  laidOut(readView(search), search, text);

test("an address that names charts or an x axis keeps them", () => {
  const text = "pin=val%2Fpsnr&x=relative&logx=1";
  const shown = (/** @type {string} */ search) => {
    const { pins, x, logX } = opened(search, text);
    return [pins, x, logX];
  };
  assert.deepEqual(shown("?from=1&to=9&at=3"), [["val/psnr"], "relative", true]);
  assert.deepEqual(shown("?pin=loss"), [["loss"], "relative", true]);
  assert.deepEqual(shown("?layout=standard"), [[], "relative", true]);
  assert.deepEqual(shown("?x=wall"), [["val/psnr"], "wall", false]);
});

test("with an x axis of the project, the address names the step", () => {
  const view = opened("", "x=relative&logx=1");
  assert.equal(writeView({ ...view, pins: [] }), "");
  const address = writeView({ ...view, x: "step", logX: false });
  assert.equal(address, "?x=step&logx=0");
  assert.equal(opened(address, "x=relative&logx=1").x, "step");
});

test("axes of the project apply to the charts that the address does not name", () => {
  const text = layoutText({ ...WHOLE, axes: { loss: "log", lr: "linear" } });
  assert.deepEqual(opened("?axis=log2:lr", text).axes, { loss: "log", lr: "log2" });
  assert.deepEqual(opened("?layout=standard", text).axes, {});
  const view = opened("", text);
  assert.equal(writeView(view), "");
  const address = writeView({ ...view, axes: { lr: "linear" } });
  assert.deepEqual(opened(address, text).axes, { lr: "linear" });
});

test("what is not readable in a saved layout is ignored", () => {
  assert.deepEqual(readLayout("panel=pie%3Aa&size=9x9%3Aa&size=x&from=3").sizes, {});
  assert.deepEqual(readLayout("panel=pie%3Aa").panels, []);
  assert.deepEqual(readView("?size=2x99999:a").sizes, { a: { wide: true, height: 800 } });
});
