/**
 * Arranges the charts: pinned first, then one section per prefix, in the order and sections the user dragged
 * them into.
 */

/** @typedef {{ key: string, title: string, names: string[] }} Section */

export const PINNED = "\u0000pinned";
/** The section of composed charts. */
export const CUSTOM = "\u0000custom";
/** The section of ranks. */
export const RANKS = "\u0000ranks";
const SYSTEM = "sys";
const HOOK = "hook";
/** Sections that are collapsed until they are opened. */
export const SHUT_AT_FIRST = [SYSTEM, HOOK];
const TITLES = /** @type {Record<string, string>} */ ({ "": "General", [SYSTEM]: "System", [HOOK]: "Hook" });
/** Charts that the page composes itself, by section, with their titles. */
const GIVEN = /** @type {Record<string, Record<string, string>>} */ ({
  [RANKS]: { "spread:step_time": "spread of step_time over ranks" },
  [SYSTEM]: { "formula:1 / step_time": "throughput, steps per second" },
});

/**
 * Return the charts that the page composes for a run.
 *
 * @param {string[]} names all series of the run
 * @param {number} ranks
 */
export const givenFor = (names, ranks) =>
  names.includes("step_time")
    ? [...(ranks > 1 ? Object.keys(GIVEN[RANKS]) : []), ...Object.keys(GIVEN[SYSTEM])]
    : [];

/**
 * Return the title of a chart that the page composes, or undefined.
 *
 * @param {string} name
 */
export const givenTitle = (name) =>
  Object.values(GIVEN).find((titles) => Object.hasOwn(titles, name))?.[name];

/**
 * Return the title of a section.
 *
 * @param {string} key
 */
const titleOf = (key) =>
  ({ [PINNED]: "Pinned", [CUSTOM]: "Custom", [RANKS]: "Ranks" })[key] ?? TITLES[key] ?? key;

/**
 * Return whether a chart can be moved to a section: those that the page composes only to the pinned ones.
 *
 * @param {string} name
 * @param {string} key
 */
export const canMoveTo = (name, key) => key === PINNED || (key !== RANKS && givenTitle(name) === undefined);

/**
 * Return `placed` after a chart was moved to a section; one in its first section is not listed.
 *
 * @param {Record<string, string>} placed
 * @param {string} name
 * @param {string} key
 * @param {boolean} composed whether the reader composed the chart
 */
export function placedIn(placed, name, key, composed) {
  const { [name]: _, ...rest } = placed;
  return key === (composed ? CUSTOM : prefixOf(name)) ? rest : { ...rest, [name]: key };
}

/**
 * "act/attn_max" belongs to "act".
 *
 * @param {string} name
 */
const prefixOf = (name) =>
  name === "gpu_util" ? "sys" : name.includes("/") ? name.slice(0, name.indexOf("/")) : "";

/** Characters of a filter that are used; the rest is ignored. Only links contain longer ones. */
const LONGEST = 500;

/**
 * Match parts of names: `|` between alternatives, `*` for any text, `^` and `$` for the ends. Not a regular
 * expression, because the text may come from a link and must not hang the page.
 *
 * @param {string} text
 * @returns {(name: string) => boolean}
 */
export function nameFilter(text) {
  const parts = text.slice(0, LONGEST).toLowerCase().split("|").map(partFilter);
  return (name) => {
    const low = name.toLowerCase();
    return parts.some((matches) => matches(low));
  };
}

/**
 * Treat `.*` as `*`, because many users type regular expressions.
 *
 * @param {string} part
 * @returns {(name: string) => boolean}
 */
function partFilter(part) {
  const first = part.startsWith("^");
  const last = part.endsWith("$");
  const pieces = part
    .slice(first ? 1 : 0, last ? -1 : undefined)
    .replaceAll(".*", "*")
    .split("*");
  return (name) => {
    let at = 0;
    for (const [i, piece] of pieces.entries()) {
      const anchored = first && i === 0;
      const found = last && i === pieces.length - 1 ? name.length - piece.length : name.indexOf(piece, at);
      if (found < at || (anchored && found !== 0) || !name.startsWith(piece, found)) return false;
      at = found + piece.length;
    }
    return true;
  };
}

/**
 * @param {string[]} names
 * @param {{ find: string, pins: string[], order: string[], placed: Record<string, string> }} view placed:
 *   sections of charts that were moved to another one
 * @param {string[]} [custom] composed charts, which the filter does not hide
 * @param {string[]} [given] charts that the page composes
 * @returns {Section[]}
 */
export function sections(names, { find, pins, order, placed }, custom = [], given = []) {
  const shown = names.filter(nameFilter(find));
  const own = given.filter(nameFilter(find));
  const pinned = pins.filter((name) => [shown, custom, own].some((each) => each.includes(name)));
  const givenIn = (/** @type {string} */ key) =>
    own.filter((name) => !pins.includes(name) && Object.hasOwn(GIVEN[key] ?? {}, name));
  const free = (/** @type {string[]} */ some) => some.filter((name) => !pins.includes(name));
  const keyOf = (/** @type {string} */ name) =>
    placed[name] ?? (custom.includes(name) ? CUSTOM : prefixOf(name));
  const loose = [...free(custom), ...free(shown).sort((a, b) => (a < b ? -1 : 1))];
  const found = new Set(loose.map(keyOf));
  if (givenIn(SYSTEM).length) found.add(SYSTEM);
  const keys = [...found]
    .filter((key) => key !== CUSTOM)
    .sort(
      (a, b) => Number(SHUT_AT_FIRST.includes(a)) - Number(SHUT_AT_FIRST.includes(b)) || (a < b ? -1 : 1),
    );
  const section = (/** @type {string} */ key, /** @type {string[]} */ all) =>
    all.length ? [{ key, title: titleOf(key), names: all }] : [];
  const of = (/** @type {string} */ key) =>
    section(key, arranged([...givenIn(key), ...loose.filter((name) => keyOf(name) === key)], order));
  return [...section(PINNED, pinned), ...of(CUSTOM), ...section(RANKS, givenIn(RANKS)), ...keys.flatMap(of)];
}

/**
 * Names in `order` come first, in its order; the others follow as they are.
 *
 * @param {string[]} names
 * @param {string[]} order
 */
function arranged(names, order) {
  const place = new Map(order.map((name, i) => [name, i]));
  const at = (/** @type {string} */ name) => place.get(name) ?? order.length;
  return [...names].sort((a, b) => at(a) - at(b));
}

/**
 * Move `name` to place `to` of its section. Returns the new `order` (or `pins`), listing only as much of a
 * section as needed.
 *
 * @param {Section} section
 * @param {string} name
 * @param {number} to
 * @param {string[]} order
 * @returns {string[]}
 */
export function moved(section, name, to, order) {
  const rest = section.names.filter((each) => each !== name);
  const place = Math.min(rest.length, Math.max(0, to));
  const now = [...rest.slice(0, place), name, ...rest.slice(place)];
  const known = section.names.reduce((last, each, i) => (order.includes(each) ? i : last), -1);
  const reach = section.key === PINNED ? now.length : Math.max(known, place, section.names.indexOf(name)) + 1;
  return [...order.filter((each) => !section.names.includes(each)), ...now.slice(0, reach)];
}
