/**
 * How the reader scaled the value axes of charts: kind, limits, outliers. Stored by series in the address of
 * the run page and of the comparison.
 */

/**
 * @typedef {import("../charts/picture.js").AxisKind} AxisKind
 * @typedef {import("../charts/picture.js").Limits} Limits
 * @typedef {{ axes: Record<string, AxisKind>, limits: Record<string, Limits>, clip: string[] }} Scales clip:
 *   series whose outliers are ignored
 */

/** @type {Scales} */
export const AUTOMATIC = { axes: {}, limits: {}, clip: [] };
const AXES = ["auto", "linear", "log", "log2"];
/** The most names in one address, because addresses have a maximum length. */
const MOST = 60;

/**
 * @param {URLSearchParams} asked
 * @returns {Scales} unreadable values are ignored
 */
export function readScales(asked) {
  const limits = pairsOf(asked, "limits").map(
    ([name, text]) => /** @type {[string, Limits | null]} */ ([name, limitsOf(text)]),
  );
  return {
    axes: /** @type {Scales["axes"]} */ (
      Object.fromEntries(pairsOf(asked, "axis").filter(([, kind]) => AXES.includes(kind)))
    ),
    limits: /** @type {Scales["limits"]} */ (Object.fromEntries(limits.filter(([, each]) => each))),
    clip: [...new Set(asked.getAll("clip").filter(Boolean))].slice(0, MOST),
  };
}

/**
 * "log:loss": the name comes last, because it may contain any character.
 *
 * @param {URLSearchParams} asked
 * @param {string} key
 * @returns {[string, string][]} name and text
 */
const pairsOf = (asked, key) =>
  asked
    .getAll(key)
    .filter((text) => text.includes(":"))
    .slice(0, MOST)
    .map(
      (text) => /** @type {[string, string]} */ ([text.slice(text.indexOf(":") + 1), text.split(":", 1)[0]]),
    )
    .filter(([name]) => name);

/**
 * "0..2.5"; an end may be missing.
 *
 * @param {string} text
 * @returns {Limits | null}
 */
function limitsOf(text) {
  const ends = text.split("..").map((end) => (end === "" ? null : Number(end)));
  const known = ends.every((end) => end === null || Number.isFinite(end));
  if (ends.length !== 2 || !known || (ends[0] === null && ends[1] === null)) return null;
  const [min, max] = ends;
  return min !== null && max !== null && min >= max ? null : [min, max];
}

/**
 * Return the axes of an address in a project that has some: those of the address come first, and one without
 * a kind is as it is without those of the project.
 *
 * @param {URLSearchParams} asked
 * @param {Scales["axes"]} usual of the project
 * @returns {Scales["axes"]}
 */
export function axesWithin(asked, usual) {
  const own = new Set(pairsOf(asked, "axis").map(([name]) => name));
  const others = Object.entries(usual).filter(([name]) => !own.has(name));
  return { ...Object.fromEntries(others), ...readScales(asked).axes };
}

/**
 * @param {Scales} scales
 * @param {Scales["axes"]} [usual] axes that an address without them means
 * @returns {[string, string][]} what differs from the default
 */
export const scalePairs = ({ axes, limits, clip }, usual = {}) => [
  ...Object.keys({ ...usual, ...axes })
    .filter((name) => axes[name] !== usual[name])
    .map((name) => /** @type {[string, string]} */ (["axis", `${axes[name] ?? ""}:${name}`])),
  ...Object.entries(limits).map(
    ([name, [min, max]]) =>
      /** @type {[string, string]} */ (["limits", `${min ?? ""}..${max ?? ""}:${name}`]),
  ),
  ...clip.map((name) => /** @type {[string, string]} */ (["clip", name])),
];

/**
 * Return how a chart is drawn, as its reader chose.
 *
 * @param {{ name: string, drawing: import("../charts/picture.js").Drawing }} kind
 * @param {Scales} scales
 * @returns {import("../charts/picture.js").Drawing}
 */
export function drawingOf({ name, drawing }, { axes, limits, clip }) {
  return {
    ...drawing,
    axis: axes[name] ?? drawing.axis,
    ...(limits[name] ? { limits: limits[name] } : {}),
    ...(clip.includes(name) ? { ignore: true } : {}),
  };
}

/**
 * @template T
 * @param {Record<string, T>} all
 * @param {string} name
 * @param {T | null} value null: the default
 * @returns {Record<string, T>}
 */
export function withValue(all, name, value) {
  const others = Object.fromEntries(Object.entries(all).filter(([key]) => key !== name));
  return value === null ? others : { ...others, [name]: value };
}

/**
 * Read limits as they are typed; an empty field is no limit.
 *
 * @param {string} low
 * @param {string} high
 * @param {boolean} log
 * @returns {Limits | null} null: no limits
 * @throws {Error} that says what to type instead
 */
export function typedLimits(low, high, log) {
  const [min, max] = [low, high].map(typedNumber);
  if (min === null && max === null) return null;
  if (min !== null && max !== null && min >= max) {
    throw new Error("The lower limit is not below the upper one: swap them, or leave one empty.");
  }
  if (log && [min, max].some((limit) => limit !== null && limit <= 0)) {
    throw new Error("A log axis ends above zero: type a number above 0, or choose the linear axis first.");
  }
  return [min, max];
}

/** @param {string} text */
function typedNumber(text) {
  const plain = text.trim().replace("−", "-");
  if (plain === "") return null;
  const value = Number(plain);
  if (Number.isFinite(value)) return value;
  throw new Error(
    `“${text.trim()}” is not a number: type one such as 0.5 or 1e-3, or leave the field empty.`,
  );
}

/**
 * Return the limits of a box drawn in a chart, with as many digits as can be seen.
 *
 * @param {[number, number]} range of the axis, in log10 if it is logarithmic
 * @param {boolean} log
 * @returns {Limits}
 */
export function boxLimits([low, high], log) {
  if (log) return [Number((10 ** low).toPrecision(4)), Number((10 ** high).toPrecision(4))];
  const unit = 10 ** (Math.floor(Math.log10(high - low)) - 3);
  return [
    Number((Math.floor(low / unit) * unit).toPrecision(12)),
    Number((Math.ceil(high / unit) * unit).toPrecision(12)),
  ];
}
