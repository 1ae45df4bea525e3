/** View state of a run page, stored in the address, so that a link shows the same view to someone else. */

import { readCustom } from "../charts/customchart.js";
import { AUTOMATIC, readScales, scalePairs } from "./scales.js";
import { readSizes, sizePairs } from "./sizes.js";
import { NOT_SMOOTHED, readSmoothing, smoothingPairs } from "./smoothing.js";
import { BY_STEP, readX, xPairs } from "./xaxis.js";

/**
 * @typedef {import("./xaxis.js").XAxis & Pick<import("./scales.js").Scales, "axes">} Usual
 * @typedef {{ from: number | null, to: number | null, follow: number | null, at: number | null, alert: string
 *   | null, span: [number, number] | null, older: number[],
 *   ranks: string, full: string | null, find: string, pins: string[], order: string[], panels: string[],
 *   shut: string[], open: string[], sizes: Record<string, import("./sizes.js").Size>,
 *   placed: Record<string, string>, standard: boolean, usual: Usual } &
 *   import("./scales.js").Scales & import("./xaxis.js").XAxis & import("./smoothing.js").Smoothed} View
 *   span: the visible part of a metric as x axis, null for all of the window; older: attempts shown in
 *   full; ranks: "band", "each" or one rank; pins, order: series; panels: composed
 *   charts (lib/charts/customchart.js); placed: sections of charts that were moved to another one; standard:
 *   the project's layout is not shown; shut: collapsed sections; open: sections that are collapsed at first;
 *   usual: the axes of the project, which an address without them means
 */

/** @type {Pick<View, "from" | "to" | "follow" | "span">} */
export const ALL_STEPS = { from: null, to: null, follow: null, span: null };

/** @type {Usual} axes of a project without a layout */
export const USUAL = { ...BY_STEP, axes: {} };

/** @type {View} */
export const WHOLE = {
  ...ALL_STEPS,
  at: null,
  alert: null,
  ...BY_STEP,
  usual: USUAL,
  ...NOT_SMOOTHED,
  ...AUTOMATIC,
  older: [],
  ranks: "band",
  full: null,
  find: "",
  pins: [],
  order: [],
  panels: [],
  shut: [],
  open: [],
  sizes: {},
  placed: {},
  standard: false,
};
const X_KINDS = ["step", "relative", "wall"];
/** The most names in one address, because addresses have a maximum length. */
const MOST = 60;

/** @param {string | null} text */
const step = (text) => (text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);

/**
 * @param {string} search
 * @returns {View} unreadable values are ignored
 */
export function readView(search) {
  const asked = new URLSearchParams(search);
  const all = (/** @type {string} */ key) => asked.getAll(key).slice(0, MOST);
  const from = step(asked.get("from"));
  const to = step(asked.get("to"));
  const follow = step(asked.get("follow"));
  const ranks = asked.get("ranks") ?? "";
  const zoom = from !== null && to !== null && to > from;
  return {
    from: zoom ? from : null,
    to: zoom ? to : null,
    follow: !zoom && follow !== null && follow >= 10 ? Math.round(follow) : null,
    at: step(asked.get("at")),
    alert: asked.get("alert"),
    ...readX(asked, X_KINDS),
    usual: USUAL,
    span: spanIn(asked),
    ...readSmoothing(asked),
    ...readScales(asked),
    older: [
      ...new Set(
        all("attempt")
          .map(Number)
          .filter((n) => Number.isInteger(n) && n > 0),
      ),
    ],
    ranks: /^(each|\d{1,6})$/.test(ranks) ? ranks : "band",
    full: asked.get("full"),
    find: asked.get("find") ?? "",
    pins: all("pin"),
    order: all("order"),
    panels: readCustom(asked),
    shut: all("shut"),
    open: all("open"),
    sizes: readSizes(asked),
    placed: readPlaced(all("in")),
    standard: asked.get("layout") === STANDARD,
  };
}

/** What the address has as `layout` for a page without the layout of its project. */
const STANDARD = "standard";

/**
 * Return the sections of charts: "act:val%2Fpsnr", the section first.
 *
 * @param {string[]} texts
 * @returns {Record<string, string>}
 */
function readPlaced(texts) {
  /** @type {[string, string][]} */
  const pairs = [];
  for (const text of texts) {
    const cut = text.indexOf(":");
    if (cut < 0 || cut === text.length - 1) continue;
    pairs.push([text.slice(cut + 1), text.slice(0, cut).replaceAll("%3A", ":").replaceAll("%25", "%")]);
  }
  return Object.fromEntries(pairs);
}

/**
 * Return the address of a section.
 *
 * @param {[string, string]} place name of a chart, key of its section
 */
const placedText = ([name, key]) => `${key.replaceAll("%", "%25").replaceAll(":", "%3A")}:${name}`;

/**
 * @param {URLSearchParams} asked
 * @returns {[number, number] | null}
 */
function spanIn(asked) {
  const [low, high] = [step(asked.get("xfrom")), step(asked.get("xto"))];
  return low !== null && high !== null && low < high ? [low, high] : null;
}

/**
 * @param {View} view
 * @returns {string} "" or "?from=…"
 */
export function writeView(view) {
  const pairs = [...windowPairs(view), ...lookPairs(view)];
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

/** @typedef {[string, string][]} Pairs */

/**
 * @param {View} view
 * @returns {Pairs}
 */
function windowPairs(view) {
  const pairs = /** @type {Pairs} */ ([]);
  if (view.from !== null && view.to !== null) {
    pairs.push(["from", String(round(view.from))], ["to", String(round(view.to))]);
    if (view.span) pairs.push(["xfrom", digits(view.span[0])], ["xto", digits(view.span[1])]);
  } else if (view.follow !== null) pairs.push(["follow", String(view.follow)]);
  if (view.at !== null) pairs.push(["at", String(Math.round(view.at))]);
  if (view.alert !== null) pairs.push(["alert", view.alert]);
  return pairs;
}

/**
 * Return what differs from the default view.
 *
 * @param {View} view
 * @returns {Pairs}
 */
function lookPairs(view) {
  const many = (/** @type {string} */ key, /** @type {unknown[]} */ values) =>
    values.map((value) => /** @type {[string, string]} */ ([key, String(value)]));
  const single = /** @type {Pairs} */ ([
    ["ranks", view.ranks === "band" ? "" : view.ranks],
    ["full", view.full ?? ""],
    ["find", view.find],
  ]);
  return [
    ...xPairs(view, view.usual),
    ...smoothingPairs(view),
    ...single.filter(([, value]) => value),
    ...scalePairs(view, view.usual.axes),
    ...many("attempt", view.older),
    ...many("pin", view.pins),
    ...many("order", view.order),
    ...many("panel", view.panels),
    ...many("shut", view.shut),
    ...many("open", view.open),
    ...sizePairs(view.sizes),
    ...many("in", Object.entries(view.placed).map(placedText)),
    ...many("layout", view.standard ? [STANDARD] : []),
  ];
}

/** @param {number} v */
const digits = (v) => String(Number(v.toPrecision(6)));

/** @param {number} v three decimals suffice for a window of a few steps */
const round = (v) => Math.round(v * 1000) / 1000;

/** Share of the run kept free on the right, so that new steps don't move every tick. */
const HEADROOM = 0.04;

/**
 * Return the steps to draw. `home` is the previous range of the whole run; it grows by `HEADROOM` only when
 * the newest step passes its end.
 *
 * @param {Pick<View, "from" | "to" | "follow">} view
 * @param {number | null} first
 * @param {number | null} last
 * @param {[number, number] | null} home
 * @returns {{ range: [number, number], home: [number, number] }}
 */
export function stepRange(view, first, last, home) {
  const a = first ?? 0;
  const b = Math.max(last ?? 0, a + 1);
  const whole =
    home && home[0] === a && home[1] >= b && home[1] <= b + (b - a) * HEADROOM * 2 + 1
      ? home
      : /** @type {[number, number]} */ ([a, b + Math.max(1, Math.ceil((b - a) * HEADROOM))]);
  if (view.from !== null && view.to !== null) return { range: [view.from, view.to], home: whole };
  if (view.follow !== null) {
    return { range: [Math.max(a, b - view.follow), b + Math.max(1, view.follow * 0.02)], home: whole };
  }
  return { range: whole, home: whole };
}

/**
 * Return a round number of steps to follow, near `span`.
 *
 * @param {number} span
 */
export function followSize(span) {
  const power = 10 ** Math.floor(Math.log10(Math.max(span, 50)));
  return Math.max(50, Math.round(span / power) * power || power);
}
