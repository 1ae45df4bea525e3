/** An empty fleet: what to paste, with the address and, at a click, the token. */

import { el, refill, svg } from "../../browser/dom.js";
import { codeBlock, copyButton } from "../code.js";
import { icon } from "../icons.js";

/**
 * @param {string} url
 * @param {string | null} token
 */
export const twoLines = (url, token) =>
  `import tocsin\ntocsin.watch("my-project", url="${url}", token="${token ?? "…"}")`;

/** @param {App} app */
export function emptyFleet(app) {
  const url = app.session.ingest_url;
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
            " This token may only report runs. It is shown once: copy the lines now.",
          );
        } catch (error) {
          refill(
            failure,
            `No token was made: ${/** @type {Error} */ (error).message} On the server's machine, `,
            el("code", {}, "tocsin-server token create"),
            " makes one.",
          );
        }
      },
    },
    "Fill in a token",
  );
  show(null);
  return el(
    "div.empty",
    {},
    flatLine(),
    el("h1", {}, "No run has reported yet"),
    el(
      "p.lead",
      {},
      "Paste these two lines above your training loop and start it. The run appears here within a second of its first step.",
    ),
    host,
    failure,
    el(
      "p.listen",
      { role: "status" },
      icon("waiting"),
      el(
        "span",
        {},
        "Listening on ",
        el("code", {}, url.replace(/^\w+:\/\//, "")),
        ". No trainer has said hello.",
      ),
    ),
    ways(),
  );
}

/** A loss that waits for its first step, and the bell it may become. */
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
      "It is running, but nothing comes",
      "Set the address and the token by environment instead, and look at the trainer's first lines.",
      "TOCSIN_URL= TOCSIN_TOKEN=",
    ),
    way(
      "A loop of your own",
      "Report each step by hand, where nothing can be watched.",
      "run.step(loss=loss)",
    ),
    way("Only looking", "Small fp16 trainings, one of which goes wrong.", "tocsin-server demo"),
  );
}
