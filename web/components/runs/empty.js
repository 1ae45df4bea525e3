/** The fleet without runs: the ways to a first one, with address and token, and what still lacks. */

import { el, refill, svg } from "../../browser/dom.js";
import { codeBlock, copyButton, TERMINAL } from "../code.js";
import { icon } from "../icons.js";

/**
 * @param {string} url
 * @param {string | null} token
 */
const twoLines = (url, token) =>
  `import tocsin\ntocsin.watch("my-project", url="${url}", token="${token ?? "…"}")`;

/**
 * @param {string} url
 * @param {string | null} token
 */
const withoutALine = (url, token) =>
  `export TOCSIN_URL=${url} TOCSIN_TOKEN=${token ?? "…"}\ntocsin run python train.py`;

/** The ways to a first run, and what still lacks. Creates the token that all of them need. */
class FirstRun {
  /** @type {string | null} */
  #token = null;

  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.url = app.session.ingest_url;
    this.lines = el("div.firstlines");
    this.failure = el("p.soft.then", { role: "status" });
    this.checks = el("ul.checks", { "aria-label": "What a first run needs" });
    this.#draw();
  }

  #draw() {
    const action = (/** @type {(url: string, token: string | null) => string} */ text) =>
      this.#token ? copyButton("Copy", () => text(this.url, this.#token)) : this.#insert();
    refill(
      this.lines,
      codeBlock("train.py", twoLines(this.url, this.#token), action(twoLines)),
      el("p.soft", {}, "Or change nothing in the script, and start it with tocsin in a terminal:"),
      codeBlock(TERMINAL, withoutALine(this.url, this.#token), action(withoutALine)),
    );
    refill(
      this.checks,
      // fleet.css shows one of these two, as components/header/offline.js finds it.
      check(
        "is-done.when-online",
        "The server answers. Training processes reach it at ",
        el("code", {}, this.url),
        ".",
      ),
      check("is-waiting.when-offline", "The server does not answer. This page tries again by itself."),
      this.#token
        ? check("is-done", "The lines contain a token, which can only report runs.")
        : check("is-waiting", "A token for training processes: insert a new one, or use one that you have."),
      check("is-waiting", "No training process has connected yet. The run appears here by itself."),
    );
  }

  #insert() {
    return el(
      "button.btn.primary.tokenmake",
      { type: "button", onclick: () => this.#make() },
      "Insert token",
    );
  }

  async #make() {
    try {
      const { token } = await this.app.alerting.makeToken("first training process", "ingest", null);
      this.#token = token ?? null;
      refill(this.failure, icon("check"), " The token is shown once, so copy the lines now.");
      this.#draw();
    } catch (error) {
      refill(
        this.failure,
        `No token was created: ${/** @type {Error} */ (error).message} On the server's machine, run `,
        el("code", {}, "tocsin-server token create --scope ingest"),
        ".",
      );
    }
  }
}

/**
 * @param {string} state classes: is-done or is-waiting, and when it is shown
 * @param {...(Node | string)} text
 */
function check(state, ...text) {
  const done = state.startsWith("is-done");
  return el(
    `li.${state}`,
    {},
    icon(done ? "check" : "waiting"),
    el("span", {}, el("span.vh", {}, done ? "Done: " : "Waiting: "), ...text),
  );
}

/** @param {App} app */
export function emptyFleet(app) {
  const first = new FirstRun(app);
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
    first.lines,
    first.failure,
    first.checks,
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
    el("div.card.pad", {}, el("h2", {}, title), el("p", {}, text), codeBlock(TERMINAL, code));
  return el(
    "div.ways",
    {},
    way(
      "Follow a log file",
      "If you cannot change the training: its log becomes a live run.",
      "tocsin tail train.log --project my-project",
    ),
    way(
      "Import past runs",
      "Hugging Face, Lightning, TensorBoard, W&B, MLflow and more. The rules check them.",
      "tocsin import runs/ --project my-project",
    ),
    way("Try the demo", "Three small trainings, two of which fail.", "tocsin-server demo"),
    way(
      "No run appears?",
      "This checks address, token and network from the training's machine.",
      "tocsin doctor",
    ),
  );
}
