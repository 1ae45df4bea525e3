import assert from "node:assert/strict";
import { test } from "node:test";
import { number, unpack } from "../../web/lib/exact.js";
import { packed } from "./layers.js";

test("every float64 is decoded bit for bit, including NaN and Inf", () => {
  const values = [0, -0, 1.5, -2e-308, 5e-324, 1.7976931348623157e308, NaN, Infinity, -Infinity, 0.1];
  const out = unpack(packed(values));
  values.forEach((value, i) => assert.ok(Object.is(out[i], value), `${value} came out as ${out[i]}`));
});

test("float32 values are decoded too", () => {
  const bdata = btoa(String.fromCharCode(...new Uint8Array(new Float32Array([0.5, NaN, -Infinity]).buffer)));
  assert.deepEqual([...unpack({ dtype: "f4", bdata })], [0.5, NaN, -Infinity]);
});

test("the API's number words are parsed, everything else is missing", () => {
  assert.ok(Number.isNaN(number("NaN")));
  assert.deepEqual(
    [number("Infinity"), number("-Infinity"), number(3), number(0)],
    [Infinity, -Infinity, 3, 0],
  );
  assert.deepEqual([number(null), number(undefined), number("12"), number("nan")], [null, null, null, null]);
});

test("a wrong type or truncated array is rejected with what was expected", () => {
  assert.throws(() => unpack({ dtype: "i4", bdata: "" }), /expected dtype "f4" or "f8", got "i4"/);
  assert.throws(() => unpack({ dtype: "f8", bdata: btoa("abc") }), /multiple of 8 bytes, got 3/);
});
