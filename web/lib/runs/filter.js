/**
 * The run filter: free text; project:, name:, tag:, state:, host:, health:, rule:; loss<0.5; any metric, as
 * in val_loss<0.5, min(val_loss)<0.5 or mean10(val_loss)<0.5, the mean of its last 10 values; config.lr>1e-4;
 * name~"swin|vit" for a regular expression. All terms must match; OR between terms, parentheses group, and
 * `-` before a term or a group excludes. Quotes keep spaces.
 *
 * What is not understood is reported with its place; the rest still applies, as one types.
 */

import { number } from "../exact.js";
import { isQuick, QUICK } from "./quickpattern.js";

/** @type {Record<string, (row: RunRow) => string>} */
const FIELDS = {
  project: (row) => row.project,
  name: (row) => row.name,
  state: (row) => row.state,
  id: (row) => row.id,
  tag: (row) => row.tags.join("\n"),
  host: (row) => row.host ?? "",
  health: (row) => row.health,
  rule: (row) => row.reason?.rule ?? "",
};
/** @type {Record<string, (row: RunRow) => number | null>} */
const NUMBERS = {
  step: (row) => row.last_step,
  alerts: (row) => row.alerts,
  attempt: (row) => row.attempt,
  skipped: (row) => row.skipped,
  nonfinite: (row) => row.nonfinite,
  gpu: (row) => number(row.gpu_util),
  loss: (row) => number(row.last?.loss),
  grad_norm: (row) => number(row.last?.grad_norm),
  scale: (row) => number(row.last?.scale),
  lr: (row) => number(row.last?.lr),
};
/** Every value of a field that has few. @type {Record<string, string[]>} */
const VALUES = {
  state: ["running", "stalled", "lost", "finished", "failed"],
  health: ["ok", "info", "warning", "critical", "ended"],
};
const KNOWN =
  "a field, such as name: or step>, a metric that a run has, such as val_loss<, " +
  "or a setting, such as config.lr>";

const TERM = /^([\w.\-/]+?)(>=|<=|!=|[:=<>~])(?:(?<==)=)?(.*)$/s;
const METRIC = /^(.+?)(>=|<=|!=|[=<>])(?:(?<==)=)?(.*)$/s;
const NUMBER = /^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|Infinity)$/;

/** Words of other languages, and what they are here. @type {Record<string, string>} */
const MEANT = {
  or: "OR in capital letters",
  "|": "OR",
  "||": "OR",
  and: "AND in capital letters",
  "&": "AND",
  "&&": "AND",
  not: "- directly before the term",
  NOT: "- directly before the term",
};

/** Groups within each other. */
const DEEPEST = 50;
/** Letters of a field that a regular expression sees, so that none takes long. */
const MATCHED = 100;

/**
 * @typedef {(id: string, key: string) => unknown} ConfigOf undefined if not set
 *
 * @typedef {(name: string) => boolean | undefined} IsMetric whether a run has a series of this name;
 *   undefined if the names are not loaded yet
 *
 * @typedef {(row: RunRow) => boolean} Holds
 *
 * @typedef {{ at: number, end: number, expected: string }} Problem a place in the text, and what was expected
 *   there
 *
 * @typedef {{ kind: "word" | "or" | "open" | "not" | "close", text: string, at: number, end: number }} Token
 */

/**
 * Return whether the filter needs configurations, which are loaded on demand.
 *
 * @param {string} text
 */
export const asksConfig = (text) => /(^|[\s(-])config\./i.test(text);

const none = () => undefined;
const no = () => false;

/**
 * Rows must have the metrics that the filter names, see `filterMetrics`.
 *
 * @param {string} text
 * @param {ConfigOf} [config]
 * @param {IsMetric} [isMetric] terms with a name that is undefined match every run
 * @returns {Holds}
 */
export const runFilter = (text, config = none, isMetric = no) => new Parser(text, config, isMetric).holds;

/**
 * Return what is not understood in a filter, in the order of the text.
 *
 * @param {string} text
 * @param {IsMetric} [isMetric]
 * @returns {Problem[]}
 */
export const filterProblems = (text, isMetric = no) =>
  new Parser(text, none, isMetric).problems.sort((a, b) => a.at - b.at);

/**
 * Return the names in a filter that are metrics, or that may be while the names are not loaded.
 *
 * @param {string} text
 * @param {IsMetric} [isMetric]
 */
export const filterMetrics = (text, isMetric = none) => [...new Parser(text, none, isMetric).metrics];

/**
 * Return the means of newest values in a filter, as a request for rows takes them: `10:val_loss`.
 *
 * @param {string} text
 * @param {IsMetric} isMetric
 */
export const filterMeans = (text, isMetric) => [...new Parser(text, none, isMetric).means];

/**
 * Split into words, parentheses and OR; AND adds nothing. Quoted words stay together, and so do both sides of
 * a comparison with spaces around its sign; parentheses within a word, as in "mAP50(B)", belong to it.
 *
 * @param {string} text
 * @returns {Token[]}
 */
function tokens(text) {
  /** @type {Token[]} */
  const found = [];
  let i = 0;
  while (i < text.length) {
    const at = i;
    if (/\s/.test(text[i])) i += 1;
    else if (text[i] === "(") found.push({ kind: "open", text: "(", at, end: ++i });
    else if (text[i] === ")") found.push({ kind: "close", text: ")", at, end: ++i });
    else if (text.startsWith("-(", i)) found.push({ kind: "not", text: "-(", at, end: (i += 2) });
    else {
      i = wordEnd(text, i);
      let raw = text.slice(at, i);
      for (let skipped = spaceInside(text, i); skipped; skipped = spaceInside(text, i)) {
        const from = i + skipped;
        i = wordEnd(text, from);
        raw += text.slice(from, i);
      }
      const word = raw.replaceAll('"', "");
      if (raw === "OR") found.push({ kind: "or", text: raw, at, end: i });
      else if (word && raw !== "AND") found.push({ kind: "word", text: word, at, end: i });
    }
  }
  return found;
}

/**
 * @param {string} text
 * @param {number} i where a word begins
 */
function wordEnd(text, i) {
  let depth = 0;
  let quoted = false;
  for (; i < text.length; i++) {
    const letter = text[i];
    if (letter === '"') quoted = !quoted;
    if (quoted) continue;
    if (/\s/.test(letter) || (letter === ")" && !depth)) break;
    depth += letter === "(" ? 1 : letter === ")" ? -1 : 0;
  }
  return i;
}

/**
 * Return how much space at `i` is before or after the sign of a comparison.
 *
 * @param {string} text
 * @param {number} i where a word ends
 */
function spaceInside(text, i) {
  const space = /^\s+(?=[^\s)])/.exec(text.slice(i))?.[0].length ?? 0;
  const inside = "<>=".includes(text[i - 1]) || /^([<>=]|!=)/.test(text.slice(i + space));
  return inside ? space : 0;
}

class Parser {
  /** @type {Problem[]} */
  problems = [];
  /** @type {Set<string>} */
  metrics = new Set();
  /** Means of newest values: `10:val_loss`. */
  means = new Set();
  #next = 0;
  #depth = 0;

  /**
   * @param {string} text
   * @param {ConfigOf} config
   * @param {IsMetric} isMetric
   */
  constructor(text, config, isMetric) {
    this.config = config;
    this.isMetric = isMetric;
    this.tokens = tokens(text);
    const quotes = text.split('"').length - 1;
    if (quotes % 2) {
      this.problems.push({ at: text.lastIndexOf('"'), end: text.length, expected: 'a " that closes this' });
    }
    this.holds = this.#any(null);
  }

  /**
   * Read alternatives up to the parenthesis that closes the group, or to the end of the text.
   *
   * @param {Token | null} opened
   * @returns {Holds}
   */
  #any(opened) {
    /** @type {Holds[][]} */
    const groups = [[]];
    /** @type {Token | null} */
    let waits = null;
    let closed = false;
    while (!closed && this.#next < this.tokens.length) {
      const token = this.tokens[this.#next++];
      const group = groups[groups.length - 1];
      if (token.kind === "or") {
        if (group.length) groups.push([]);
        else this.#expect(token, waits ? "a term between the two ORs" : "a term before OR");
        waits = token;
      } else if (token.kind === "close") {
        if (opened) closed = true;
        else this.#expect(token, "no ), because none is open");
      } else {
        group.push(this.#one(token));
        waits = null;
      }
    }
    if (waits && groups.length > 1 && !groups[groups.length - 1].length) {
      this.#expect(waits, "a term after OR");
      groups.pop();
    }
    if (opened && !closed) this.#expect(opened, "a ) that closes this");
    return (row) => groups.some((terms) => terms.every((holds) => holds(row)));
  }

  /**
   * @param {Token} token
   * @returns {Holds}
   */
  #one(token) {
    if (token.kind === "open" || token.kind === "not") return this.#group(token);
    const { text, at, end } = token;
    const isQuoted = end - at > text.length;
    if (!isQuoted && Object.hasOwn(MEANT, text) && this.tokens.length > 1) {
      this.#expect(token, MEANT[text]);
      return () => true;
    }
    return text.length > 1 && text.startsWith("-")
      ? deny(this.#term(token, text.slice(1)))
      : this.#term(token, text);
  }

  /**
   * @param {Token} token
   * @returns {Holds}
   */
  #group(token) {
    if (this.#depth === DEEPEST) {
      this.#expect(token, `at most ${DEEPEST} groups within each other`);
      return () => true;
    }
    this.#depth += 1;
    const inner = this.#any(token);
    this.#depth -= 1;
    return token.kind === "not" ? deny(inner) : inner;
  }

  /**
   * @param {Token} token
   * @param {string} word
   * @returns {Holds}
   */
  #term(token, word) {
    const [, key = "", sign = "", wanted = ""] = TERM.exec(word) ?? [];
    const name = key.toLowerCase();
    const low = wanted.toLowerCase();
    const { config } = this;
    if (sign === "~" && (name in FIELDS || name.startsWith("config."))) {
      const pattern = this.#pattern(token, wanted);
      if (!pattern) return () => false;
      if (name in FIELDS) return (row) => pattern.test(FIELDS[name](row).slice(0, MATCHED));
      return (row) => pattern.test(String(config(row.id, key.slice(7)) ?? "").slice(0, MATCHED));
    }
    const ofConfig = name.startsWith("config.");
    if (ofConfig || name in NUMBERS) this.#checkNumber(token, key, sign, wanted);
    if (ofConfig) return (row) => holds(config(row.id, key.slice(7)), sign, wanted);
    if (sign && sign !== "~" && name in NUMBERS) return (row) => holds(NUMBERS[name](row), sign, wanted);
    this.#checkValue(token, name, sign, low);
    if (sign === ":" && name in FIELDS) return (row) => FIELDS[name](row).toLowerCase().includes(low);
    if (sign && (sign === "=" || sign === "!=") && name in FIELDS) {
      return (row) => FIELDS[name](row).toLowerCase().split("\n").includes(low) === (sign === "=");
    }
    const metric = this.#metric(token, word);
    if (metric) return metric;
    if (sign === "~") this.#expect(token, KNOWN);
    const meant = sign === ":" && fieldLike(name);
    if (meant) this.#expect(token, `${meant}:`);
    const free = word.toLowerCase();
    return (row) =>
      `${row.project}\n${row.name}\n${row.id}\n${row.tags.join("\n")}`.toLowerCase().includes(free);
  }

  /**
   * Report a value that the field never has; a part of one is allowed after a colon.
   *
   * @param {Token} token
   * @param {string} name
   * @param {string} sign
   * @param {string} wanted
   */
  #checkValue(token, name, sign, wanted) {
    if (!Object.hasOwn(VALUES, name) || ![":", "=", "!="].includes(sign)) return;
    const values = VALUES[name];
    const known = sign === ":" ? values.some((value) => value.includes(wanted)) : values.includes(wanted);
    const listed = `${values.slice(0, -1).join(", ")} or ${values[values.length - 1]}`;
    if (wanted && !known) this.#expect(token, `${name}${sign}${listed}`);
  }

  /**
   * Report a comparison, such as loss<, whose right-hand side is no number: nothing matches it. Settings may
   * equal a text, and values NaN.
   *
   * @param {Token} token
   * @param {string} subject
   * @param {string} sign
   * @param {string} wanted
   */
  #checkNumber(token, subject, sign, wanted) {
    if (!Number.isNaN(toNumber(wanted))) return;
    const isOrder = sign.startsWith("<") || sign.startsWith(">");
    const isEqual = sign.endsWith("=") && !/^config\./i.test(subject) && wanted.toLowerCase() !== "nan";
    if (isOrder) this.#expect(token, `a number after ${subject}${sign}`);
    else if (isEqual) this.#expect(token, `a number or nan after ${subject}${sign}`);
  }

  /**
   * Read a term about a metric; null if it is free text, which may contain =.
   *
   * @param {Token} token
   * @param {string} word
   * @returns {Holds | null}
   */
  #metric(token, word) {
    const [, subject = "", sign = "", wanted = ""] = METRIC.exec(word) ?? [];
    if (!sign) return null;
    const [, which = "last", inner = subject] =
      /^(last|min|max|mean[1-9]\d{0,2}|mean1000)\((.+)\)$/s.exec(subject) ?? [];
    const kind = /** @type {"last" | "min" | "max"} */ (this.isMetric(subject) ? "last" : which);
    const count = kind.startsWith("mean") ? kind.slice(4) : "";
    const name = this.isMetric(subject) ? subject : inner;
    const known = this.isMetric(name);
    if (known === undefined) this.metrics.add(name);
    if (known === undefined) return () => true;
    if (!known && sign !== "=") this.#expect(token, KNOWN);
    if (!known) return null;
    this.#checkNumber(token, subject, sign, wanted);
    this.metrics.add(name);
    if (!count) return (row) => holds(number(row.metrics?.[name]?.[kind]), sign, wanted);
    this.means.add(`${count}:${name}`);
    return (row) => holds(number(row.metrics?.[name]?.means?.[count]), sign, wanted);
  }

  /**
   * @param {Token} token
   * @param {string} wanted
   */
  #pattern(token, wanted) {
    try {
      if (isQuick(wanted)) return new RegExp(wanted, "i");
      this.#expect(token, QUICK);
    } catch {
      this.#expect(token, "a regular expression after ~");
    }
    return null;
  }

  /**
   * @param {Token} token
   * @param {string} expected
   */
  #expect({ at, end }, expected) {
    this.problems.push({ at, end, expected });
  }
}

/**
 * Return the field that is meant by the beginning of its name, by its plural, or with a typing error.
 *
 * @param {string} name
 */
const fieldLike = (name) =>
  name.length > 1 &&
  Object.keys(FIELDS).find(
    (field) => field.startsWith(name) || name === `${field}s` || isMistyped(name, field),
  );

/** Shorter words are also similar by chance. */
const LEAST_MISTYPED = 4;

/**
 * Return whether a letter of a word is missing, superfluous, another one, or in another place.
 *
 * @param {string} typed
 * @param {string} word
 */
function isMistyped(typed, word) {
  const without = (/** @type {string} */ text) =>
    [...text].map((_, i) => text.slice(0, i) + text.slice(i + 1));
  const [shorter, others] = [new Set(without(word)), without(typed)];
  if (Math.min(typed.length, word.length) < LEAST_MISTYPED) return false;
  return shorter.has(typed) || others.some((text) => text === word || shorter.has(text));
}

/**
 * @param {Holds} holds
 * @returns {Holds}
 */
const deny = (holds) => (row) => !holds(row);

/**
 * Return a decimal number or an infinity; NaN for any other text.
 *
 * @param {string} text
 */
function toNumber(text) {
  const written = text.replace(/^([+-]?)inf$/i, "$1Infinity").trim();
  return NUMBER.test(written) ? Number(written) : NaN;
}

/**
 * Compare numbers as numbers, and everything else as text.
 *
 * @param {unknown} value
 * @param {string} sign
 * @param {string} wanted
 */
function holds(value, sign, wanted) {
  if (value === undefined || value === null) return false;
  const text = String(value).toLowerCase();
  const want = wanted.toLowerCase();
  const a = Number(value);
  const b = toNumber(wanted);
  const both = wanted !== "" && !Number.isNaN(a) && !Number.isNaN(b);
  if (sign === ":") return both && typeof value === "number" ? a === b : text.includes(want);
  const same = both ? a === b : text === want;
  if (sign === "=") return same;
  if (sign === "!=") return !same;
  if (!both) return false;
  return sign === ">" ? a > b : sign === "<" ? a < b : sign === ">=" ? a >= b : a <= b;
}
