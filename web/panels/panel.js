/**
 * The frame of a chart: title, note, value and plot. The frame exists before the data.
 *
 * Data: layers and pictures from the panels' owner (panels/vitals.js, panels/metricpanels.js,
 * panels/compareboard.js). Draws: its head; panels/plot.js draws into its plot.
 */

import { el, refill, say } from "../browser/dom.js";
import { bucketNote, bucketSentence } from "../lib/charts/bucketnote.js";
import { at } from "../lib/charts/buckets.js";
import { scaleNote } from "../lib/charts/clipped.js";
import { countMarks } from "../lib/charts/marks.js";
import { NOTHING, readoutAt } from "../lib/charts/readout.js";
import { reading } from "../lib/charts/series.js";
import { num } from "../lib/format.js";

/**
 * A kind of panel, one file each in panels/.
 *
 * @typedef {{ name: string, title: string, height: number, color: string, skips: boolean, drawing:
 *   import("../lib/charts/picture.js").Drawing, read: (layer: Layer, i: number) =>
 *   import("../lib/charts/readout.js").Readout, note: (plan: { log: boolean }) => string }} PanelKind
 */

/** A description in words is renewed at most this often, because screen readers don't need every record. */
const WORDS_MS = 1_000;
let serial = 0;

/** Note of a series that the run does not have. */
export const ABSENT = "not reported by this run";

export class Panel {
  /**
   * What was drawn last, for the smoothed value under the cross line.
   *
   * @type {import("../lib/charts/picture.js").Picture | null}
   */
  picture = null;
  /** Added to the note: where the values come from. */
  source = "";
  /** @type {(() => string) | null} */
  #describe = null;
  #waiting = false;
  #key = "";

  /**
   * @param {PanelKind} kind
   * @param {{ tag?: string, tall?: number, menuOf?: (panel: Panel) => Node, grip?: Node }} [o]
   */
  constructor(kind, o = {}) {
    this.kind = kind;
    this.value = el("b", {}, "–");
    this.soft = el("span.muted.range");
    this.bad = el("span.is-critical");
    this.faults = el("span.faults", { hidden: true });
    this.note = el(
      "span.micro.extra",
      {},
      kind.note({ log: kind.drawing.axis !== "linear" && kind.drawing.axis !== "auto" }),
    );
    this.inks = el("span.inks", { hidden: true });
    this.words = el("p.vh", { id: `in-words-${++serial}` });
    this.plot = el("div.plot", {
      "--h": `${kind.height + (o.tall ?? 0)}px`,
      role: "img",
      "aria-label": `${kind.title} by step`,
      "aria-describedby": this.words.id,
    });
    this.node = el(
      o.tag ?? "section.panel",
      { "aria-label": kind.title, "data-series": kind.name },
      el(
        "div.panelhead",
        {},
        o.grip ?? null,
        el("h3", { title: kind.title }, ...titleOf(kind.title)),
        this.inks,
        this.note,
        this.faults,
        el("span.readout", {}, this.value, this.soft, this.bad),
        o.menuOf?.(this) ?? null,
      ),
      this.plot,
      this.words,
    );
    this.log = false;
  }

  /** The series that it shows. */
  get names() {
    return [this.kind.name];
  }

  /**
   * The columns of its table of values, or null for those of its series.
   *
   * @returns {import("../components/runs/valuetable.js").Values | null}
   */
  values() {
    return null;
  }

  /**
   * Composed charts choose their lines from the series of the run.
   *
   * @type {(known: string[]) => void}
   */
  offer() {}

  /**
   * Name the lines of a chart that shows several optimizers.
   *
   * @param {import("../lib/charts/optimizers.js").Companion[]} beside
   * @param {string} first
   */
  key(beside, first) {
    const lines = beside.length
      ? [{ name: first || "first", ink: this.kind.color, dash: "" }, ...beside]
      : [];
    const key = lines.map(({ name }) => name).join("\n");
    if (key === this.#key) return;
    this.#key = key;
    this.inks.hidden = !lines.length;
    refill(
      this.inks,
      ...lines.map(({ name, ink, dash }) =>
        el(
          "span",
          {},
          el(`i${dash ? ".is-dashed" : ""}`, { "--ink": `var(${ink})`, "aria-hidden": "true" }),
          name,
        ),
      ),
    );
  }

  /**
   * Describe the chart in words soon, for people who do not see it.
   *
   * @param {() => string} describe
   */
  describe(describe) {
    this.#describe = describe;
    this.#describeSoon();
  }

  #describeSoon() {
    if (this.#waiting || !this.#describe) return;
    this.#waiting = true;
    setTimeout(() => {
      this.#waiting = false;
      say(this.words, this.#describe?.() ?? "");
    }, WORDS_MS);
  }

  /**
   * Show the value at step `x`, or the newest; for a smoothed line also the smoothed value, first.
   *
   * @param {Layer[]} layers
   * @param {number | null} x
   * @param {import("../lib/charts/timeaxis.js").Timeline} [timeline]
   */
  showAt(layers, x, timeline) {
    const found = reading(layers, x);
    const read = found ? readoutAt(this.kind, found, x) : NOTHING;
    const smoothed =
      found && !/NaN|Inf/.test(read.value)
        ? this.smoothed(timeline && x !== null ? timeline.toX(x) : x)
        : null;
    say(this.value, smoothed === null ? read.value : num(smoothed));
    say(this.soft, smoothed !== null ? ` raw ${read.soft || read.value}` : read.soft ? ` ${read.soft}` : "");
    say(this.bad, read.bad ? ` · ${read.bad}` : "");
    this.value.classList.toggle("is-critical", /NaN|Inf/.test(read.value));
  }

  /**
   * @param {number | null} x in units of the axis; null: the newest
   * @returns {number | null} null if nothing is smoothed
   */
  smoothed(x) {
    const lines = this.picture?.lines ?? [];
    const behind = lines.findIndex((line) => line.raw && !line.ink);
    const line = behind < 0 ? undefined : lines[behind + 1];
    if (!line || !line.x.length) return null;
    const value = line.y[x === null ? line.x.length - 1 : Math.max(0, at(line.x, x))];
    return Number.isFinite(value) ? value : null;
  }

  /**
   * A series that was never reported shows only its head, unless it has to show the axis.
   *
   * @param {boolean} absent
   * @param {boolean} [open] whether its chart stays
   * @param {string} [note]
   */
  absent(absent, open = false, note = ABSENT) {
    this.plot.hidden = absent && !open;
    if (absent) say(this.note, note);
  }

  /**
   * Make room for the labels of an axis.
   *
   * @param {number} extra px
   */
  taller(extra) {
    this.plot.style.setProperty("--h", `${this.kind.height + extra}px`);
  }

  /**
   * Remember what was drawn and update note, counts and the description in words, which names the points.
   *
   * @param {import("../lib/charts/picture.js").Picture} picture
   * @param {string} [note] instead of that of its kind
   */
  drew(picture, note = this.kind.note(picture.plan)) {
    this.picture = picture;
    this.log = picture.plan.log;
    const scaled = scaleNote(picture.drawing, picture.clipped);
    say(
      this.note,
      [note, this.source, picture.left, bucketNote(picture), scaled].filter(Boolean).join(" · "),
    );
    this.note.title = bucketSentence(picture);
    const counts = countMarks(picture.marks);
    this.faults.hidden = !counts;
    say(this.faults, counts);
    this.plot.classList.toggle("is-empty", picture.empty);
    this.#describeSoon();
  }
}

/**
 * "act/attn_logit_max": the prefix is dimmed.
 *
 * @param {string} title
 */
function titleOf(title) {
  const cut = title.lastIndexOf("/") + 1;
  return cut ? [el("span.muted", {}, title.slice(0, cut)), title.slice(cut)] : [title];
}
