/** One name of the media of a run: an image, histogram, text or table, with a slider over its steps. */

import { el, refill, say, svg } from "../../browser/dom.js";
import { bytes, counted, dotted, int, num } from "../../lib/format.js";

const BARS = { width: 320, height: 120 };
/** The contents of this many objects are kept. */
const KEPT = 100;

/**
 * @typedef {{ url: (hash: string) => string, content: (hash: string) => Promise<Response> }} Contents
 * where the
 *   content of an object comes from
 *
 * @typedef {{ low: number | null, high: number | null, counts: number[], nan: number, inf: number, "-inf":
 *   number, values: number, of: number }} Counts
 */

/** The objects of one name; the slider chooses the step, and stays at the newest unless it is moved. */
export class MediaCard {
  /** @type {MediaRow[]} */
  items = [];
  at = -1;
  /** Whether the bars of a histogram are as high as the logarithms of its counts. */
  log = false;
  /** @type {Map<string, Promise<Node>>} */
  #contents = new Map();
  #serial = 0;

  /**
   * @param {string} name
   * @param {Contents} source
   */
  constructor(name, source) {
    this.source = source;
    this.step = el("span.muted");
    this.slider = /** @type {HTMLInputElement} */ (
      el("input", { type: "range", min: "0", "aria-label": `Step of ${name}` })
    );
    this.slider.addEventListener("input", () => this.#choose(Number(this.slider.value)));
    this.figure = el("div.media-content");
    this.caption = el("figcaption.micro");
    this.node = el(
      "figure",
      { "aria-label": name },
      el("div.bar", {}, el("h3", {}, el("bdi", {}, name)), el("span.grow"), this.step),
      this.figure,
      this.caption,
      this.slider,
    );
  }

  /** @param {MediaRow[]} items */
  show(items) {
    const follows = this.at < 0 || this.at === this.items.length - 1;
    this.items = items;
    this.slider.max = String(items.length - 1);
    this.slider.hidden = items.length < 2;
    this.#choose(follows ? items.length - 1 : this.at);
  }

  /**
   * Show the newest object at or before a step, or the first.
   *
   * @param {number} step
   */
  until(step) {
    const after = this.items.findIndex((item) => (item.step ?? 0) > step);
    this.#choose(after < 0 ? this.items.length - 1 : Math.max(0, after - 1));
  }

  /** @param {boolean} log */
  countsBy(log) {
    if (log === this.log) return;
    this.log = log;
    this.#contents.clear();
    if (this.items.length) this.#choose(this.at);
  }

  /** @param {number} at */
  #choose(at) {
    const own = ++this.#serial;
    const item = this.items[at];
    this.at = at;
    this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", `step ${int(item.step)}`);
    say(this.step, dotted(`step ${int(item.step)}`, item.rank ? `rank ${item.rank}` : ""));
    say(this.caption, dotted(item.caption, factsOf(item)));
    void this.#content(item).then((node) => {
      if (own === this.#serial) refill(this.figure, node);
    });
  }

  /** @param {MediaRow} item */
  #content(item) {
    const known = this.#contents.get(item.hash);
    if (known) return known;
    if (this.#contents.size >= KEPT) this.#contents.clear();
    const made = contentOf(item, this.source, this.log).catch((error) => {
      this.#contents.delete(item.hash);
      return el("p.failure", {}, /** @type {Error} */ (error).message);
    });
    this.#contents.set(item.hash, made);
    return made;
  }
}

/**
 * Return the facts about an object that its content does not show.
 *
 * @param {MediaRow} item
 */
function factsOf({ facts, bytes: size }) {
  const { width, height, nonfinite, cut, rows, characters } = facts;
  return dotted(
    width ? `${width} × ${height} pixels` : "",
    typeof nonfinite === "number" && nonfinite ? `${int(nonfinite)} values are NaN or infinite` : "",
    cut === true && typeof rows === "number" ? `the first of ${int(rows)} rows` : "",
    cut === true && rows === null ? "the first rows" : "",
    cut === true && typeof characters === "number" ? `the beginning of ${int(characters)} characters` : "",
    bytes(size),
  );
}

/**
 * @param {MediaRow} item
 * @param {Contents} source
 * @param {boolean} log
 * @returns {Promise<Node>}
 */
async function contentOf(item, source, log) {
  if (item.type === "image") {
    return el("img", {
      src: source.url(item.hash),
      alt: item.caption || `${item.name} at step ${int(item.step)}`,
      loading: "lazy",
    });
  }
  const response = await source.content(item.hash);
  if (item.type === "text") return el("pre", { tabindex: "0" }, await response.text());
  const found = await response.json();
  return item.type === "histogram" ? bars(found, log) : rowsOf(found);
}

/**
 * @param {Counts} found
 * @param {boolean} log
 */
function bars({ low, high, counts, nan, inf, "-inf": below, values, of }, log) {
  const share = (/** @type {number} */ count) => (log ? Math.log10(count + 1) : count);
  const most = share(Math.max(1, ...counts));
  const wide = BARS.width / Math.max(1, counts.length);
  const odd = [nan && `${int(nan)} NaN`, inf && `${int(inf)} +Inf`, below && `${int(below)} −Inf`].filter(
    Boolean,
  );
  const range = counts.length ? `${num(low)} to ${num(high)}` : "no finite value";
  const sample = values < of ? `${int(values)} of ${int(of)} values` : counted(values, "value");
  const label = `Histogram of ${sample}: ${range}${odd.length ? `, ${odd.join(", ")}` : ""}`;
  return el(
    "div",
    {},
    svg(
      "svg",
      { viewBox: `0 0 ${BARS.width} ${BARS.height}`, role: "img", "aria-label": label, class: "media-bars" },
      ...counts.map((count, i) => {
        const height = (share(count) / most) * BARS.height;
        return svg(
          "rect",
          { x: i * wide, y: BARS.height - height, width: Math.max(0.5, wide - 0.5), height },
          svg("title", {}, int(count)),
        );
      }),
    ),
    el("p.micro.row", {}, el("span", {}, num(low)), el("span.grow"), el("span", {}, num(high))),
    el("p.micro", {}, dotted(sample, ...odd.map(String), log ? "log counts" : "")),
  );
}

/** @param {{ columns: string[], rows: unknown[][] }} found */
function rowsOf({ columns, rows }) {
  /** @param {number} i */
  const isNumeric = (i) => rows.length > 0 && rows.every((row) => typeof row[i] === "number");
  return el(
    "div.scroll",
    { tabindex: "0", role: "region", "aria-label": columns.join(", ") },
    el(
      "table.plain-table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ...columns.map((name, i) => el("th", { scope: "col", class: isNumeric(i) ? "n" : "" }, name)),
        ),
      ),
      el(
        "tbody",
        {},
        ...rows.map((row) =>
          el(
            "tr",
            {},
            ...row.map((cell) =>
              typeof cell === "number"
                ? el("td.n", {}, num(cell))
                : el("td", {}, cell === null ? "–" : String(cell)),
            ),
          ),
        ),
      ),
    ),
  );
}
