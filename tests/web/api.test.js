import assert from "node:assert/strict";
import { test } from "node:test";
import { Api } from "../../web/data/api.js";
import { ApiError, query } from "../../web/data/http.js";

const reply = (status, body, type = "application/json") =>
  new Response(typeof body === "string" ? body : JSON.stringify(body), {
    status,
    headers: { "content-type": type },
  });
function apiOf(...replies) {
  const asked = [];
  return {
    asked,
    api: new Api(async (input) => {
      asked.push(input);
      return replies[Math.min(asked.length, replies.length) - 1];
    }),
  };
}

test("names are escaped and repeated in the address, never joined", async () => {
  const { api, asked } = apiOf(reply(200, {}), reply(200, {}));
  await api.series("a/b?c", ["loss", "val/a,b"], { from: 1.7, to: 9.2, buckets: 500 });
  assert.equal(
    asked[0],
    "/api/v1/runs/a%2Fb%3Fc/series?names=loss&names=val%2Fa%2Cb&from=1&to=10&buckets=500&chart=true",
  );
  await api.series("r", ["a,b"], { from: null, to: null });
  assert.equal(asked[1], "/api/v1/runs/r/series?names=a%2Cb&names=a%2Cb&chart=true");
});

test("an error keeps the server's message", async () => {
  const { api } = apiOf(
    reply(
      404,
      { title: "Not found", detail: "run: expected a known id, got x", subject: "run" },
      "application/problem+json",
    ),
  );
  await assert.rejects(
    api.run("x"),
    (error) =>
      error instanceof ApiError &&
      error.status === 404 &&
      /expected a known id, got x/.test(error.message) &&
      error.problem.subject === "run",
  );
});

test("errors without a body and missing responses have a message", async () => {
  await assert.rejects(
    apiOf(reply(502, "<html>", "text/html")).api.runs(),
    (error) => error.status === 502 && error.message.includes("502"),
  );
  const dead = new Api(async () => {
    throw new TypeError("fetch failed");
  });
  await assert.rejects(
    dead.runs(),
    (error) =>
      error instanceof ApiError && error.status === 0 && error.message === "The server does not respond.",
  );
});

test("all pages of runs are loaded", async () => {
  const { api, asked } = apiOf(
    reply(200, { items: [1, 2], next: "b", now_ms: 1, cursor: "x-1" }),
    reply(200, { items: [3], next: null, now_ms: 2, cursor: "x-2" }),
  );
  assert.deepEqual(await api.allRuns(), { items: [1, 2, 3], now_ms: 2, cursor: "x-1" });
  assert.deepEqual(asked, [
    "/api/v1/runs?limit=5000&sparks=false",
    "/api/v1/runs?after=b&limit=5000&sparks=false",
  ]);
});

test("more metrics than a request can have are loaded by several", async () => {
  const row = (name) => reply(200, { items: [{ id: "r", metrics: { [name]: {} } }], next: "b" });
  const { api, asked } = apiOf(row("m0"), row("m20"));
  const names = Array.from({ length: 21 }, (_, i) => `m${i}`);
  const { metrics, next } = await api.runMetrics(names, { ids: ["r"] });
  assert.deepEqual([Object.keys(metrics.get("r")), next, asked.length], [["m0", "m20"], "b", 2]);
  assert.equal(asked[1], "/api/v1/runs?sparks=false&ids=r&metrics=m20");
});

test("a mean is asked for with its metric", async () => {
  const { api, asked } = apiOf(reply(200, { items: [], next: null }));
  await api.runMetrics(["m"], { ids: ["r"], means: ["10:m", "9:other"] });
  assert.equal(asked[0], "/api/v1/runs?sparks=false&ids=r&metrics=m&means=10%3Am");
});

test("unset parameters are left out", () => {
  assert.equal(query({ a: null, b: undefined, c: "", d: 0 }), "?d=0");
  assert.equal(query({}), "");
  assert.equal(query({ a: ["x", "y,z"], b: [] }), "?a=x&a=y%2Cz");
});
