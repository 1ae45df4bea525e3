/**
 * The four vital signs on one x axis, with flags above, alerts from their onset, and one cross line through
 * all.
 *
 * Data: the page says what to draw (scene), from data/rundata.js. Draws: panels/plot.js, from
 * lib/charts/picture.js.
 */

import { el } from "../browser/dom.js";
import { icon } from "../components/icons.js";
import { background } from "../lib/charts/background.js";
import { leadsOf } from "../lib/alerts/incidents.js";
import { bucketSentence } from "../lib/charts/bucketnote.js";
import { flagsOf, placeFlags } from "../lib/charts/flags.js";
import { picture } from "../lib/charts/picture.js";
import { int, num, pow2, ruleTitle } from "../lib/format.js";
import { describe } from "../lib/charts/inwords.js";
import { companions, firstOptimizer } from "../lib/charts/optimizers.js";
import { leading, rankIn } from "../lib/charts/ranks.js";
import { scaleReadout } from "../lib/charts/readout.js";
import { normSource } from "../lib/runs/clienttext.js";
import { labelOf } from "../lib/charts/timeaxis.js";
import { drawingOf } from "../lib/views/scales.js";
import { CrossLine } from "./crossline.js";
import { gradNorm } from "./grad-norm.js";
import { learningRate } from "./learning-rate.js";
import { loss } from "./loss.js";
import { ABSENT, Panel } from "./panel.js";
import { margins } from "./figure.js";
import { scale } from "./scale.js";

export const KINDS = [loss, gradNorm, scale, learningRate];
const AXIS_PX = 18;

/**
 * What to draw; range in units of the x axis, everything else in steps. window: the visible steps
 *
 * @typedef {{ range: [number, number], window: [number, number], last: number, alerts: Alert[], events:
 *   RunEvent[], chosen: string |
 *   null, reported: Set<string> | null, restarts: number[], timeline:
 *   import("../lib/charts/timeaxis.js").Timeline, look: import("../lib/charts/picture.js").Look, scales:
 *   import("../lib/views/scales.js").Scales, layers: (name: string) => Layer[] }} Scene
 */

/**
 * Return what a chart of a run shows, in words.
 *
 * @param {Panel} panel
 * @param {Scene} scene
 * @param {Layer[]} layers
 * @param {{ name: string, layers: Layer[] }[]} [others] further lines of the chart
 */
export function inWords({ kind, log, picture: drawn }, scene, layers, others = besideOf(kind.name, scene)) {
  const { timeline, look } = scene;
  const [from, to] = scene.window;
  const how = {
    window: /** @type {[number, number]} */ ([from, Math.min(to, scene.last)]),
    log,
    held: kind.drawing.steps,
    text: kind.read === scaleReadout ? pow2 : num,
  };
  const own = describe({
    ...how,
    layers: leading(layers, rankIn(look.ranks)),
    skipped: kind.skips ? scene.layers("skipped") : [],
    alerts: scene.alerts,
    chosen: scene.chosen,
  });
  const beside = others.map((each) => `${each.name}: ${describe({ ...how, layers: each.layers })}`);
  const axis = timeline.title === "step" ? "" : `The x axis is ${timeline.title}.`;
  return [own, ...beside, axis, drawn ? bucketSentence(drawn) : "", drawn?.left ? `${drawn.left}.` : ""]
    .filter(Boolean)
    .join(" ");
}

/**
 * @param {string} name
 * @param {Scene} scene
 */
const besideOf = (name, { reported, layers }) =>
  companions(name, reported).map((each) => ({ ...each, layers: layers(each.series) }));

export class Vitals {
  /**
   * @param {{ scene: () => Scene, pinned: (step: number | null) => void,
   *   pointed: (step: number | null) => void, resized: () => void,
   *   chose: (flag: import("../lib/charts/flags.js").Flag) => void }} source
   * @param {(panel: Panel) => Node} menuOf
   * @param {import("./panel.js").PanelKind[]} kinds
   */
  constructor(source, menuOf, kinds = KINDS) {
    this.source = source;
    this.flags = el("div.flags", { role: "group", "aria-label": "Alerts and events" });
    /** @type {Panel[]} */
    this.panels = kinds.map((kind) => new Panel(kind, { menuOf }));
    /** @type {Panel | null} */
    this.bottom = this.panels[this.panels.length - 1];
    const label = el("span");
    const line = el("div.cross", { hidden: true, "aria-hidden": "true" }, label);
    this.node = el(
      "section.card.vitals.is-loading",
      {
        tabindex: "0",
        "aria-label": "Vital signs on one step axis. Arrow keys move the cross line, Escape releases it.",
      },
      this.flags,
      ...this.panels.map((panel) => panel.node),
      line,
    );
    this.cross = new CrossLine(this.node, line, label, {
      width: () => this.width,
      range: () => source.scene().range,
      timeline: () => source.scene().timeline,
      label: (step) => labelOf(source.scene().timeline, step),
      smallest: () => 1,
      margins,
      pinned: source.pinned,
      pointed: (step) => this.#showAt(step),
    });
    this.flagKey = "";
    this.width = 0;
    /** @type {string | null} the panel shown in full screen, if any */
    this.full = null;
    new ResizeObserver(([entry]) => {
      this.width = entry.contentRect.width;
      this.source.resized();
    }).observe(this.node);
  }

  /** Close the panels of series that the run does not report, once that is known. */
  arrange() {
    const { reported } = this.source.scene();
    const absent = (/** @type {Panel} */ { kind }) => reported !== null && !reported.has(kind.name);
    // The lowest open panel has the axis of all. Before the first series, the last stays open for it.
    const upwards = [...this.panels].reverse();
    this.bottom = upwards.find((panel) => !absent(panel)) ?? (reported?.size ? null : upwards[0]);
    this.node.classList.toggle("is-loading", reported === null);
    for (const panel of this.panels) {
      panel.absent(absent(panel), panel === this.bottom);
      panel.taller(panel === this.bottom ? AXIS_PX : 0);
    }
  }

  /** @param {import("./plot.js").Plots} plots */
  draw(plots) {
    this.arrange();
    for (const panel of this.panels) plots.draw(panel.plot, (width) => this.#drawn(panel, width));
    for (const panel of this.panels.filter((each) => !each.plot.hidden)) {
      // Also what is off the screen and not drawn yet, because screen readers read without scrolling.
      panel.describe(() => inWords(panel, this.source.scene(), this.source.scene().layers(panel.kind.name)));
    }
    this.#placeFlags();
    this.cross.refresh();
  }

  /**
   * Show one panel in full screen, with the flags above it; null for none.
   *
   * @param {string | null} name
   */
  fill(name) {
    this.full = this.panels.some((panel) => panel.kind.name === name) ? name : null;
    this.node.classList.toggle("is-full", this.full !== null);
    for (const panel of this.panels) {
      panel.node.classList.toggle("is-away", this.full !== null && panel.kind.name !== this.full);
    }
  }

  /**
   * @param {Panel} panel
   * @param {number} width
   */
  #drawn(panel, width) {
    const scene = this.source.scene();
    const beside = companions(panel.kind.name, scene.reported);
    panel.key(beside, firstOptimizer(scene.events));
    const drawn = picture(
      drawingOf(panel.kind, scene.scales),
      scene.layers(panel.kind.name),
      panel.kind.skips ? scene.layers("skipped") : [],
      scene.range,
      width,
      panel.log,
      { ...scene.look, beside: beside.map((each) => ({ ...each, layers: scene.layers(each.series) })) },
    );
    panel.source = panel.kind.name === "grad_norm" ? normSource(scene.events) : "";
    panel.drew(drawn, scene.reported?.has(panel.kind.name) === false ? ABSENT : undefined);
    panel.showAt(scene.layers(panel.kind.name), this.cross.step, scene.timeline);
    return {
      picture: drawn,
      ...background(scene, true),
      xticks: panel === this.bottom || this.full !== null,
      color: panel.kind.color,
    };
  }

  /** @param {number | null} step */
  #showAt(step) {
    const { layers, timeline } = this.source.scene();
    for (const panel of this.panels) panel.showAt(layers(panel.kind.name), step, timeline);
    this.source.pointed(step);
  }

  /** Flags are rebuilt only when one moved by a pixel. */
  #placeFlags() {
    const {
      range: [a, b],
      alerts,
      events,
      chosen,
      timeline,
    } = this.source.scene();
    const { left, right } = margins();
    const width = this.width - left - right;
    if (width <= 0) return;
    const placed = placeFlags(
      flagsOf(leadsOf(alerts, chosen), events, chosen),
      (step) => left + ((timeline.toX(step) - a) / (b - a)) * width,
      left,
      left + width,
    );
    const key = placed.map(({ flag, px, mirrored }) => `${flag.key} ${Math.round(px)} ${mirrored}`).join(";");
    if (key === this.flagKey) return;
    this.flagKey = key;
    this.flags.replaceChildren(...placed.map((place) => this.#flag(place)));
  }

  /** @param {{ flag: import("../lib/charts/flags.js").Flag, px: number, mirrored: boolean }} place */
  #flag({ flag, px, mirrored }) {
    const text = flag.severity ? ruleTitle(flag.text) : flag.text;
    return el(
      "button.flag",
      {
        type: "button",
        class: `${flag.severity} ${mirrored ? "left" : ""}`,
        "--x": `${px.toFixed(1)}px`,
        title: `${text}, from step ${int(flag.step)}`,
        onclick: () => this.source.chose(flag),
      },
      flag.severity ? icon(flag.severity, flag.severity) : null,
      el("span", {}, text),
    );
  }
}
