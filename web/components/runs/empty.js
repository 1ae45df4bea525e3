/** The fleet without runs: the lines to paste, with address and token. */

import { el, refill, svg } from "../../browser/dom.js";
import { codeBlock, copyButton } from "../code.js";
import { icon } from "../icons.js";

/**
 * @param {string} url
 * @param {string | null} token
 */
export const twoLines = (url, token) =>
  `import tocsin\ntocsin.watch("my-project", url="${url}", token="${token ?? "…"}")`;

/**
 * The lines to paste, with a button that creates a token for them.
 *
 * @param {App} app
 * @param {string} url
 */
function pasteLines(app, url) {
  const host = el("div");
  const failure = el("p.soft.then", { role: "status" });
  const show = (/** @type {string | null} */ token) =>
    refill(
      host,
      codeBlock(
        "train.py",
        twoLines(url, token),
        token ? copyButton("Copy", () => twoLines(url, token)) : make,
      ),
    );
  const make = el(
    "button.btn.primary.tokenmake",
    {
      type: "button",
      onclick: async () => {
        try {
          const { token } = await app.api.makeIngestToken();
          show(token);
          refill(
            failure,
            icon("check"),
            " This token can only report runs. It is shown once, so copy the lines now.",
          );
        } catch (error) {
          refill(
            failure,
            `No token was created: ${/** @type {Error} */ (error).message} On the server's machine, run `,
            el("code", {}, "tocsin-server token create --scope ingest"),
            ".",
          );
        }
      },
    },
    "Insert token",
  );
  show(null);
  return [host, failure];
}

/** @param {App} app */
export function emptyFleet(app) {
  const url = app.session.ingest_url;
  return el(
    "div.empty",
    {},
    flatLine(),
    el("h1", {}, "No runs yet"),
    el(
      "p.lead",
      {},
      "Paste these two lines above your training loop. The run appears here after its first step.",
    ),
    ...pasteLines(app, url),
    el(
      "p.listen",
      { role: "status" },
      icon("waiting"),
      el(
        "span",
        {},
        "Listening on ",
        el("code", {}, url.replace(/^\w+:\/\//, "")),
        ". No training process has connected yet.",
      ),
    ),
    ways(),
  );
}

/** An empty chart with a loss curve that waits for its first step. */
function flatLine() {
  return svg(
    "svg",
    { viewBox: "0 0 720 136", class: "flat", preserveAspectRatio: "xMinYMid meet", "aria-hidden": "true" },
    svg("path", {
      class: "gridline",
      d: "M36 20H720M36 55H720M36 90H720M180 8V112M324 8V112M468 8V112M612 8V112",
    }),
    svg("path", { class: "axis", d: "M36 112H720" }),
    svg("path", { class: "wait", d: "M36 90H250" }),
    svg("path", { class: "ghost", d: "M250 90H330C400 90 390 22 430 22S460 90 530 90H720" }),
    svg("circle", { class: "pen", cx: 250, cy: 90, r: 4 }),
    svg("text", { x: 36, y: 130 }, "step 0"),
    svg("text", { x: 8, y: 94 }, "loss"),
  );
}

function ways() {
  const way = (/** @type {string} */ title, /** @type {string} */ text, /** @type {string} */ code) =>
    el("div.card.pad", {}, el("h2", {}, title), el("p", {}, text), el("code", {}, code));
  return el(
    "div.ways",
    {},
    way(
      "No run appears?",
      "Set address and token in environment variables, and check the first lines of the training's output.",
      "TOCSIN_URL= TOCSIN_TOKEN=",
    ),
    way("Custom loop", "Report each step yourself if there is no optimizer to watch.", "run.step(loss=loss)"),
    way("Try the demo", "Small fp16 trainings, one of which fails.", "tocsin-server demo"),
  );
}
