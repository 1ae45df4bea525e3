/** All other series of the run in a plain grid. They share the window and the cross line of the vital signs. */

import { bands } from "../lib/attention.js";
import { el, refill, say } from "../lib/dom.js";
import { Feed } from "../lib/feed.js";
import { counted } from "../lib/format.js";
import { picture } from "../lib/picture.js";
import { isOther, other } from "../panels/other.js";
import { Panel } from "./panel.js";

/** Panels shown before a person asks for more: each costs the server a read and the page a chart. */
const FIRST = 12;
const BUCKETS = 600;

/** What the hook measures of the machine and of itself comes after what the script logged. @param {string} name */
const isMachine = (name) => /^(sys|hook)\//.test(name) || name === "gpu_util";

export class Others {
  /** @param {import("../main.js").App} app @param {string} run @param {{ scene: () => import("./vitals.js").Scene, plots: () => import("../lib/plot.js").Plots | null }} source */
  constructor(app, run, source) {
    this.source = source;
    this.shown = FIRST;
    /** @type {string[]} */
    this.names = [];
    /** @type {Map<string, Panel>} */
    this.panels = new Map();
    /** @type {StepWindow} */
    this.window = { from: null, to: null };
    /** @type {number | null} */
    this.step = null;
    this.count = el("span.muted");
    this.more = el("button.btn", { type: "button", hidden: true, onclick: () => this.showAll() }, "Show all");
    this.grid = el("div.grid2");
    this.failure = el("p.soft.pad", { hidden: true });
    this.head = el("div.sec", { hidden: true }, el("h2", {}, "Other series"), this.count, el("span.grow"), this.more);
    this.feed = new Feed(app.api, app.live, run, { changed: (_, grew) => { this.failure.hidden = true; if (grew) this.draw(); }, failed: (error) => this.#fail(error) });
  }

  /** @param {string[]} all every series of the run */
  offer(all) {
    const names = all.filter(isOther).sort((a, b) => Number(isMachine(a)) - Number(isMachine(b)) || (a < b ? -1 : 1));
    if (names.join("\n") === this.names.join("\n")) return;
    this.names = names;
    this.#arrange();
  }

  showAll() {
    this.shown = Infinity;
    this.#arrange();
  }

  /** @param {StepWindow} window */
  look(window) {
    this.window = window;
    const names = [...this.panels.keys()];
    if (names.length) void this.feed.load(names, { ...window, buckets: BUCKETS });
  }

  #arrange() {
    const names = this.names.slice(0, this.shown);
    this.head.hidden = !names.length;
    say(this.count, names.length < this.names.length ? `${names.length} of ${this.names.length}` : counted(this.names.length, "series", "series"));
    this.more.hidden = names.length === this.names.length;
    this.panels = new Map(names.map((name) => [name, this.panels.get(name) ?? new Panel(other(name), { tag: "section.card.panel" })]));
    refill(this.grid, ...[...this.panels.values()].map((panel) => panel.node));
    this.look(this.window);
  }

  /** @param {number | null} step */
  tell(step) {
    this.step = step;
    for (const [name, panel] of this.panels) panel.tell(this.feed.set.get(name), step);
  }

  draw() {
    const plots = this.source.plots();
    if (!plots || !this.feed.ready) return;
    for (const [name, panel] of this.panels) plots.draw(panel.plot, (width) => this.#drawn(name, panel, width));
    this.tell(this.step);
  }

  /** @param {string} name @param {Panel} panel @param {number} width */
  #drawn(name, panel, width) {
    const scene = this.source.scene();
    const drawn = picture(panel.kind.drawing, this.feed.set.get(name), [], scene.range, width, panel.log);
    panel.drew(drawn);
    return { picture: drawn, bands: bands(scene.alerts, scene.last), edges: [], xticks: true, colour: panel.kind.colour, nticks: 4 };
  }

  /** @param {Error} error */
  #fail(error) {
    this.failure.hidden = false;
    say(this.failure, `These series did not load: ${error.message} They are asked for again when the server is back.`);
  }

  close() {
    this.feed.close();
  }
}
