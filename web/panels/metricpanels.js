/**
 * Charts the reader composed, and all other metrics of the run in sections by prefix, with the window, x axis
 * and cross line of the vital signs. Only visible panels are loaded and drawn.
 *
 * Data: its own feed (data/feed.js); what is drawn, and how, comes from the page (scene). Draws:
 * panels/plot.js, from lib/charts/picture.js.
 */

import { el, focusIn, refill, say } from "../browser/dom.js";
import { readOpen, writeOpen } from "../browser/opensections.js";
import { icon } from "../components/icons.js";
import { LayoutMenu } from "../components/runs/layoutmenu.js";
import { seriesValues } from "../components/runs/valuetable.js";
import { Feed } from "../data/feed.js";
import { background } from "../lib/charts/background.js";
import { customOf } from "../lib/charts/customchart.js";
import { picture } from "../lib/charts/picture.js";
import { CUSTOM, givenFor, PINNED, RANKS, sections, SHUT_AT_FIRST } from "../lib/charts/sections.js";
import { counted } from "../lib/format.js";
import { drawingOf } from "../lib/views/scales.js";
import { Arranging } from "./arranging.js";
import { CustomPanel, recordedFirst } from "./custom.js";
import { isMetric, metric } from "./metric.js";
import { onPlotClick } from "./crossline.js";
import { Panel } from "./panel.js";
import { RankCard } from "./rankcard.js";
import { freePanel } from "./runpanels/index.js";
import { margins } from "./figure.js";
import { inWords } from "./vitals.js";

const BUCKETS = 600;
/** Series requested at once; more than fit on any screen. */
const MOST = 60;
/** Panels that scroll by are not requested; wait until they stay. */
const SETTLE_MS = 90;

/**
 * @typedef {import("../lib/views/runview.js").View} View
 * @typedef {import("../lib/charts/sections.js").Section} Section
 */
/**
 * @typedef {{ scene: () => import("./vitals.js").Scene, plots: () => import("./plot.js").Plots | null, view:
 *   () => View, set: (change: Partial<View>) => void, hover: (step: number | null) => void, clicked: (step:
 *   number) => void, menuOf: (panel: any) => Node, compose: () => void, first: (change: Partial<View>) =>
 *   void }}
 *   Source first: changes the view and leaves the address
 */

export class MetricPanels {
  /** @type {string[]} */
  names = [];
  /** @type {string[]} all series of the run */
  all = [];
  /** @type {Map<string, Panel>} */
  panels = new Map();
  /** @type {Map<string, import("./runpanels/index.js").FreePanel>} those that are not drawn over steps */
  free = new Map();
  /** @type {Section[]} */
  list = [];
  /** @type {Set<string>} */
  near = new Set();
  /** @type {StepWindow} */
  window = { from: null, to: null };
  /** @type {number | null} */
  step = null;
  key = "";
  /** Sections that this browser keeps open. */
  kept = readOpen();

  /**
   * @param {App} app
   * @param {string} run
   * @param {Source} source
   */
  constructor(app, run, source) {
    this.source = source;
    this.media = {
      ask: () => app.api.media(run),
      url: (/** @type {string} */ hash) => app.api.mediaUrl(run, hash),
      content: (/** @type {string} */ hash) => app.api.mediaContent(run, hash),
    };
    this.layout = new LayoutMenu(app.api, {
      may: app.session.scope !== "read",
      view: source.view,
      set: source.set,
      first: source.first,
    });
    this.arranging = new Arranging({ list: () => this.list, view: source.view, set: source.set });
    this.count = el("span.muted");
    this.input = /** @type {HTMLInputElement} */ (
      el("input", {
        placeholder: "filter: act/|opt/",
        spellcheck: "false",
        title: "Part of a name; | for alternatives, * for any text, ^ and $ for the ends",
        "aria-label": "Filter metrics by name",
        oninput: () => this.#found(),
      })
    );
    this.grid = el("div.sections", {
      onpointermove: (/** @type {PointerEvent} */ event) => source.hover(this.#stepAt(event)),
      onpointerleave: () => source.hover(null),
    });
    onPlotClick(this.grid, (event) => this.#stepAt(event), source.clicked);
    this.failure = el("p.soft.pad", { hidden: true });
    this.nothing = el("p.muted.pad", { hidden: true });
    this.head = el(
      "div.sec",
      { hidden: true },
      el("h2", {}, "Metrics"),
      this.count,
      el("span.grow"),
      el("button.btn", { type: "button", onclick: () => source.compose() }, "Add chart"),
      this.layout.node,
      el("label.field", {}, icon("search"), this.input),
    );
    this.feed = new Feed(app.api, app.live, run, {
      changed: (_, grew) => {
        this.failure.hidden = true;
        if (grew) this.draw();
      },
      failed: (error) => this.#fail(error),
    });
    this.ranks = new RankCard(app, run);
    this.watcher = new IntersectionObserver((entries) => this.#sighted(entries), { rootMargin: "300px" });
  }

  /**
   * @param {string[]} all all series of the run
   * @param {RunDetail["writers"]} writers
   */
  offer(all, writers) {
    const sorted = [...all].sort();
    const { count } = this.ranks;
    this.ranks.show(writers, this.window);
    if (this.ranks.count === count && sorted.join("\n") === this.all.join("\n")) return;
    this.all = sorted;
    this.names = sorted.filter(isMetric);
    for (const panel of this.panels.values()) if (panel instanceof CustomPanel) panel.offer(sorted);
    for (const panel of this.free.values()) panel.offer(sorted);
    this.arrange();
    this.#ask();
  }

  /** Apply sections, pins, order and filter of the view. */
  arrange() {
    const view = this.source.view();
    const found = sections(this.names, view, view.panels, givenFor(this.all, this.ranks.count));
    this.list = found;
    if (this.input.value !== view.find && document.activeElement !== this.input) this.input.value = view.find;
    const shown = found.reduce((sum, { names }) => sum + names.filter((each) => !customOf(each)).length, 0);
    const look = [view.shut, view.open, this.kept, view.find, view.full, view.sizes];
    const key = JSON.stringify([this.list, ...look]);
    this.head.hidden = !this.all.length;
    say(
      this.count,
      shown < this.names.length ? `${shown} of ${this.names.length}` : counted(this.names.length, "metric"),
    );
    this.nothing.hidden = shown > 0 || !this.names.length;
    say(this.nothing, `No metric matches “${view.find}”.`);
    if (key !== this.key) this.#build(view);
    this.key = key;
  }

  /** @param {View} view */
  #build(view) {
    const focus =
      document.activeElement instanceof HTMLElement && this.grid.contains(document.activeElement)
        ? (document.activeElement.dataset.grip ?? null)
        : null;
    const shown = new Set(
      this.list.flatMap((section) => (this.#isShut(section.key, view) ? [] : section.names)),
    );
    for (const [name, panel] of this.panels) if (!shown.has(name)) this.#drop(name, panel);
    for (const [name, panel] of this.free) {
      if (shown.has(name)) continue;
      this.watcher.unobserve(panel.node);
      panel.close();
      this.free.delete(name);
      this.near.delete(name);
    }
    refill(this.grid, ...this.list.map((section) => this.#section(section, view)));
    if (focus !== null) focusIn(this.grid, `[data-grip="${CSS.escape(focus)}"]`);
  }

  /**
   * @param {string} name
   * @param {Panel} panel
   */
  #drop(name, panel) {
    this.watcher.unobserve(panel.node);
    this.source.plots()?.drop(panel.plot);
    this.panels.delete(name);
    this.near.delete(name);
  }

  /**
   * @param {Section} section
   * @param {View} view
   */
  #section(section, view) {
    const shut = this.#isShut(section.key, view);
    const grid = el(
      "div.grid2",
      { hidden: shut },
      ...(shut ? [] : section.names.map((name) => this.#panel(name, view).node)),
    );
    const toggle = () => this.#toggle(section.key, shut);
    return el(
      "section.series-section",
      {
        "data-section":
          { [PINNED]: "pinned", [CUSTOM]: "custom", [RANKS]: "ranks" }[section.key] ?? section.key,
      },
      el(
        "h3",
        {},
        el(
          "button.linkish.sectionhead",
          { type: "button", "aria-expanded": String(!shut), onclick: toggle },
          el("span.arrow", { "aria-hidden": "true" }, shut ? "▸" : "▾"),
          section.key === PINNED ? icon("pin") : null,
          section.title,
          el("span.muted", {}, String(section.names.length)),
        ),
      ),
      section.key === RANKS && !shut ? this.ranks.node : null,
      grid,
    );
  }

  /**
   * Return whether a section is collapsed. A filter opens what it finds.
   *
   * @param {string} key
   * @param {View} view
   */
  #isShut(key, { shut, open, find }) {
    if (!SHUT_AT_FIRST.includes(key)) return shut.includes(key);
    return !find && ![...open, ...this.kept].includes(key);
  }

  /**
   * Open or collapse a section. This browser keeps what is collapsed at first.
   *
   * @param {string} key
   * @param {boolean} shut
   */
  #toggle(key, shut) {
    const { shut: before, open } = this.source.view();
    const turned = (/** @type {string[]} */ keys, /** @type {boolean} */ on) =>
      on ? [...new Set([...keys, key])] : keys.filter((each) => each !== key);
    if (!SHUT_AT_FIRST.includes(key)) return this.source.set({ shut: turned(before, !shut) });
    this.kept = turned(this.kept, shut);
    writeOpen(this.kept);
    this.source.set({ open: turned(open, shut) });
  }

  /**
   * @param {string} name
   * @param {View} view
   * @returns {{ node: HTMLElement }}
   */
  #panel(name, view) {
    const known = this.panels.get(name) ?? this.free.get(name) ?? this.#make(name);
    known.node.classList.toggle("is-full", view.full === name);
    this.arranging.fit(known.node, name);
    return known;
  }

  /**
   * @param {string} name
   * @returns {{ node: HTMLElement }}
   */
  #make(name) {
    const grip = this.arranging.grip(name);
    const free = freePanel(name, { grip, menuOf: this.source.menuOf, media: this.media });
    if (free) {
      free.offer(this.all);
      this.free.set(name, free);
      this.arranging.accept(free.node, name);
      free.node.append(this.arranging.corner(free.node, name));
      this.watcher.observe(free.node);
      return free;
    }
    const frame = { tag: "section.card.panel", grip, menuOf: this.source.menuOf };
    const panel = customOf(name) ? new CustomPanel(name, frame) : new Panel(metric(name), frame);
    if (panel instanceof CustomPanel) panel.offer(this.all);
    panel.node.append(this.arranging.corner(panel.node, name));
    panel.node.append(el("i.hair", { hidden: true, "aria-hidden": "true" }));
    this.arranging.accept(panel.node, name);
    this.panels.set(name, panel);
    this.watcher.observe(panel.node);
    return panel;
  }

  #found() {
    this.source.set({ find: this.input.value });
  }

  /** @param {IntersectionObserverEntry[]} entries */
  #sighted(entries) {
    for (const { target, isIntersecting } of entries) {
      const name = String(/** @type {HTMLElement} */ (target).dataset.series);
      if (isIntersecting) this.near.add(name);
      else this.near.delete(name);
    }
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      if ([...this.near].some((name) => !this.#loaded(name))) this.#ask();
      else this.draw(); // a new chart of series that others loaded
    }, SETTLE_MS);
  }

  #ask() {
    const names = [...new Set([...this.near].flatMap((name) => this.seriesOf(name)))].slice(0, MOST);
    if (names.length) void this.feed.load(names, { ...this.window, buckets: BUCKETS });
  }

  /**
   * Return the series that a chart reads.
   *
   * @param {string} name
   */
  seriesOf(name) {
    const panel = this.panels.get(name);
    return this.free.get(name)?.names ?? (panel instanceof CustomPanel ? panel.resolved.names : [name]);
  }

  /**
   * Return the columns of a chart's table of values.
   *
   * @param {string} name
   */
  valuesOf(name) {
    const panel = this.panels.get(name);
    const values = this.free.get(name)?.values() ?? (panel instanceof CustomPanel ? panel.values() : null);
    return values ?? seriesValues(name);
  }

  /** @param {string} name */
  #loaded(name) {
    return this.seriesOf(name).every((each) => this.feed.names.includes(each));
  }

  /**
   * Return the lines of a chart. Only those of composed charts have names.
   *
   * @param {string} name
   * @returns {import("../lib/charts/customchart.js").CustomData[]}
   */
  #lines(name) {
    const panel = this.panels.get(name);
    const get = (/** @type {string} */ each) => this.feed.set.get(each);
    if (!(panel instanceof CustomPanel)) return [{ name: "", layers: get(name), ink: "", dash: "" }];
    return panel.data(get, this.feed.ready && this.#loaded(name));
  }

  /**
   * Return the lines of a composed chart, for the tooltip; undefined for a metric.
   *
   * @param {Panel} panel
   * @param {number} step
   */
  linesAt(panel, step) {
    return panel instanceof CustomPanel ? recordedFirst(this.#lines(panel.kind.name), step) : undefined;
  }

  /** @param {StepWindow} window */
  look(window) {
    this.window = window;
    this.ranks.look(window);
    this.#ask();
  }

  /** @param {number | null} step */
  showAt(step) {
    this.step = step;
    const scene = this.source.scene();
    const { left, right } = margins();
    const [a, b] = scene.range;
    const share = step === null ? -1 : (scene.timeline.toX(step) - a) / (b - a);
    for (const name of this.near) {
      this.free.get(name)?.showAt(step);
      const panel = this.panels.get(name);
      if (!panel) continue;
      const hair = /** @type {HTMLElement | null} */ (panel?.node.lastElementChild);
      panel?.showAt(this.#lines(name)[0]?.layers ?? [], step, scene.timeline);
      if (!hair) continue;
      hair.hidden = !(share >= 0 && share <= 1);
      hair.style.setProperty("--x", `calc(${left}px + (100% - ${left + right}px) * ${share.toFixed(4)})`);
    }
  }

  /**
   * @param {PointerEvent} event
   * @returns {number | null}
   */
  #stepAt(event) {
    const plot = /** @type {Element} */ (event.target).closest?.(".plot");
    if (!plot) return null;
    const box = plot.getBoundingClientRect();
    const { left, right } = margins();
    const {
      range: [a, b],
      timeline,
    } = this.source.scene();
    const share = (event.clientX - box.left - left) / (box.width - left - right);
    const step = Math.round(timeline.toStep(a + share * (b - a)));
    return share < 0 || share > 1 || !Number.isFinite(step) ? null : step;
  }

  draw() {
    const plots = this.source.plots();
    for (const name of this.near) this.free.get(name)?.draw((each) => this.feed.set.get(each));
    if (!plots || !this.feed.ready) return;
    for (const name of this.near) {
      const panel = this.panels.get(name);
      if (panel) plots.draw(panel.plot, (width) => this.#drawn(name, panel, width));
    }
    this.showAt(this.step);
  }

  /**
   * @param {string} name
   * @param {Panel} panel
   * @param {number} width
   * @returns {import("./figure.js").Drawn | null}
   */
  #drawn(name, panel, width) {
    if (!this.#loaded(name)) return null;
    const [first, ...beside] = this.#lines(name);
    const layers = first?.layers ?? [];
    const scene = this.source.scene();
    const full = panel.node.classList.contains("is-full");
    const drawn = picture(drawingOf(panel.kind, scene.scales), layers, [], scene.range, width, panel.log, {
      ...scene.look,
      beside,
    });
    panel.drew(drawn);
    panel.describe(() => inWords(panel, this.source.scene(), layers, beside));
    panel.showAt(layers, this.step, scene.timeline);
    return {
      picture: drawn,
      ...background(scene, full),
      xticks: true,
      color: panel.kind.color,
      nticks: full ? 8 : 4,
    };
  }

  /** @param {Error} error */
  #fail(error) {
    this.failure.hidden = false;
    say(
      this.failure,
      `These metrics did not load: ${error.message} The page tries again when the server is back.`,
    );
  }

  close() {
    clearTimeout(this.settling);
    this.watcher.disconnect();
    this.ranks.close();
    for (const panel of this.free.values()) panel.close();
    this.feed.close();
  }
}
