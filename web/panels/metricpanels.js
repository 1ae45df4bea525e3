/**
 * Charts the reader composed, and all other metrics of the run in sections by prefix, with the window, x axis
 * and cross line of the vital signs. Only visible panels are loaded and drawn.
 *
 * Data: its own feed (data/feed.js); what is drawn, and how, comes from the page (scene). Draws:
 * panels/plot.js, from lib/charts/picture.js, in panels/panelsections.js.
 */

import { el, say } from "../browser/dom.js";
import { LayoutMenu } from "../components/runs/layoutmenu.js";
import { MetricsHead } from "../components/runs/metricshead.js";
import { notLoaded } from "../components/undo.js";
import { Feed } from "../data/feed.js";
import { background } from "../lib/charts/background.js";
import { customOf } from "../lib/charts/customchart.js";
import { drawnBeside } from "../lib/charts/optimizers.js";
import { picture } from "../lib/charts/picture.js";
import { givenFor, sections } from "../lib/charts/sections.js";
import { RUN_LAYOUT } from "../lib/views/layout.js";
import { drawingOf } from "../lib/views/scales.js";
import { Arranging } from "./arranging.js";
import { CustomPanel, recordedFirst } from "./custom.js";
import { isMetric, metric, seriesValues } from "./metric.js";
import { onPlotClick } from "./crossline.js";
import { Panel } from "./panel.js";
import { PanelSections } from "./panelsections.js";
import { RankCard } from "./rankcard.js";
import { freePanel, loadPanels } from "./runpanels/index.js";
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
 * @typedef {import("./panelmenu.js").AnyPanel} AnyPanel
 */
/**
 * @typedef {{ scene: () => import("./vitals.js").Scene, plots: () => import("./plot.js").Plots | null, view:
 *   () => View, set: (change: Partial<View>) => void, hover: (step: number | null) => void, clicked: (step:
 *   number) => void, menuOf: (panel: any) => Node, compose: () => void, first: (view: View) => void }}
 *   Source first: shows this view and leaves the address
 */

export class MetricPanels {
  closed = false;
  /** @type {string[]} all series of the run */
  all = [];
  /** @type {Map<string, AnyPanel>} */
  #panels = new Map();
  /** @type {Section[]} */
  list = [];
  /** @type {Set<string>} */
  near = new Set();
  /** @type {StepWindow} */
  window = { from: null, to: null };
  /** @type {number | null} */
  step = null;

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
    const { view, set } = source;
    this.layout = new LayoutMenu(app.api, RUN_LAYOUT, {
      may: app.session.scope !== "read",
      view,
      set,
      first: source.first,
    });
    this.arranging = new Arranging({ list: () => this.list, view, set });
    this.head = new MetricsHead(
      { find: (find) => set({ find }), compose: () => source.compose() },
      this.layout.node,
    );
    this.failure = el("p.soft.pad", { hidden: true });
    this.feed = new Feed(app.api, app.live, run, {
      changed: (_, grew) => {
        this.failure.hidden = true;
        if (grew) this.draw();
      },
      failed: (error) => this.#fail(error),
    });
    this.ranks = new RankCard(app, run);
    this.sections = new PanelSections({
      accept: (head, key) => this.arranging.acceptInto(head, key),
      view,
      set,
      node: (name) => this.#node(name),
      keep: (shown) => this.#keep(shown),
      ranks: this.ranks.node,
    });
    const { grid } = this.sections;
    grid.addEventListener("pointermove", (event) => source.hover(this.#stepAt(event)));
    grid.addEventListener("pointerleave", () => source.hover(null));
    onPlotClick(grid, (event) => this.#stepAt(event), source.clicked);
    this.watcher = new IntersectionObserver((entries) => this.#sighted(entries), { rootMargin: "300px" });
  }

  /** The charts that are drawn over steps. */
  get panels() {
    return [...this.#panels.values()].filter((panel) => panel instanceof Panel);
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
    for (const panel of this.#panels.values()) panel.offer(sorted);
    this.arrange();
    this.#ask();
  }

  /** Apply sections, pins, order and filter of the view. */
  arrange() {
    if (this.closed) return;
    const view = this.source.view();
    const beside = drawnBeside(this.all);
    const names = this.all.filter(
      (name) => isMetric(name) && (!beside.includes(name) || view.pins.includes(name)),
    );
    this.list = sections(names, view, view.panels, givenFor(this.all, this.ranks.count));
    const all = this.list.flatMap((section) => section.names);
    const loading = loadPanels(all);
    if (loading) return void loading.then(() => this.arrange(), notLoaded);
    const shown = all.filter((name) => !customOf(name)).length;
    this.head.show({ any: this.all.length > 0, total: names.length, shown, find: view.find });
    this.sections.show(this.list);
  }

  /**
   * Drop the charts that are not shown.
   *
   * @param {Set<string>} shown
   */
  #keep(shown) {
    for (const [name, panel] of this.#panels) {
      if (shown.has(name)) continue;
      this.watcher.unobserve(panel.node);
      if (panel instanceof Panel) this.source.plots()?.drop(panel.plot);
      else panel.close();
      this.#panels.delete(name);
      this.near.delete(name);
    }
  }

  /** @param {string} name */
  #node(name) {
    const { node } = this.#panels.get(name) ?? this.#make(name);
    node.classList.toggle("is-full", this.source.view().full === name);
    this.arranging.fit(node, name);
    return node;
  }

  /**
   * @param {string} name
   * @returns {AnyPanel}
   */
  #make(name) {
    const { menuOf } = this.source;
    const frame = { tag: "section.card.panel", grip: this.arranging.grip(name), menuOf };
    const free = freePanel(name, { ...frame, media: this.media });
    const panel = free ?? (customOf(name) ? new CustomPanel(name, frame) : new Panel(metric(name), frame));
    panel.offer(this.all);
    panel.node.append(this.arranging.corner(panel.node, name));
    if (!free) panel.node.append(el("i.hair", { hidden: true, "aria-hidden": "true" }));
    this.arranging.accept(panel.node, name);
    this.#panels.set(name, panel);
    this.watcher.observe(panel.node);
    return panel;
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
   * Return the series that a chart reads, also of vital signs.
   *
   * @param {string} name
   */
  seriesOf(name) {
    return this.#panels.get(name)?.names ?? [name];
  }

  /**
   * Return the columns of a chart's table of values.
   *
   * @param {string} name
   */
  valuesOf(name) {
    return this.#panels.get(name)?.values() ?? seriesValues(name);
  }

  /** @param {string} name */
  #loaded(name) {
    return this.seriesOf(name).every((each) => this.feed.names.includes(each));
  }

  /**
   * Return the lines of a chart. Only those of composed charts have names.
   *
   * @param {Panel} panel
   * @returns {import("../lib/charts/customchart.js").CustomData[]}
   */
  #lines(panel) {
    const { name } = panel.kind;
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
    return panel instanceof CustomPanel ? recordedFirst(this.#lines(panel), step) : undefined;
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
    for (const panel of this.#visible()) {
      if (!(panel instanceof Panel)) {
        panel.showAt(step);
        continue;
      }
      panel.showAt(this.#lines(panel)[0]?.layers ?? [], step, scene.timeline);
      const hair = /** @type {HTMLElement} */ (panel.node.lastElementChild);
      hair.hidden = !(share >= 0 && share <= 1);
      hair.style.setProperty("--x", `calc(${left}px + (100% - ${left + right}px) * ${share.toFixed(4)})`);
    }
  }

  #visible() {
    return [...this.near].flatMap((name) => this.#panels.get(name) ?? []);
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
    const ready = plots && this.feed.ready;
    for (const panel of this.#visible()) {
      if (!(panel instanceof Panel)) panel.draw((each) => this.feed.set.get(each), this.source.view().axes);
      else if (ready) plots.draw(panel.plot, (width) => this.#drawn(panel, width));
    }
    if (ready) this.showAt(this.step);
  }

  /**
   * @param {Panel} panel
   * @param {number} width
   * @returns {import("./figure.js").Drawn | null}
   */
  #drawn(panel, width) {
    if (!this.#loaded(panel.kind.name)) return null;
    const [first, ...beside] = this.#lines(panel);
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
    this.closed = true;
    clearTimeout(this.settling);
    this.watcher.disconnect();
    this.ranks.close();
    for (const panel of this.#panels.values()) if (!(panel instanceof Panel)) panel.close();
    this.feed.close();
  }
}
