/**
 * Formulas over series: names, numbers, + - * / ( ), log, exp, sqrt and abs. Read by hand, never evaluated as
 * code, because a formula may come from a link.
 */

/** Characters of a formula, parentheses within each other, and series in one formula. */
export const LONGEST = 300;
const DEEPEST = 50;
const MOST_NAMES = 12;

/** @type {Record<string, (value: number) => number>} */
const FUNCTIONS = { log: Math.log, exp: Math.exp, sqrt: Math.sqrt, abs: Math.abs };

/**
 * @typedef {(values: number[]) => number} Value of the series' values, in the order of `names`
 * @typedef {{ names: string[], value: Value }} Formula
 */

/** What is wrong with a formula, and at which character. */
export class FormulaError extends Error {
  /**
   * @param {string} message
   * @param {number} at
   */
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}

/**
 * Read a formula. A name is the longest known one that fits there, so that `train/loss` is a series and
 * `train/loss / 2` a division.
 *
 * @param {string} text
 * @param {Iterable<string>} known names of all series of the run
 * @returns {Formula}
 * @throws {FormulaError} if it is not understood
 */
export function readFormula(text, known) {
  if (text.length > LONGEST) {
    throw new FormulaError(
      `The formula has ${text.length} characters; at most ${LONGEST} are read.`,
      LONGEST,
    );
  }
  return new Reader(text, known).formula();
}

class Reader {
  /** @type {string[]} */
  names = [];
  #at = 0;
  #depth = 0;

  /**
   * @param {string} text
   * @param {Iterable<string>} known
   */
  constructor(text, known) {
    this.text = text;
    this.known = [...known].filter(Boolean).sort((a, b) => b.length - a.length);
  }

  /** @returns {Formula} */
  formula() {
    const value = this.#sum();
    if (this.#peek()) this.#fail(`Expected an operator, got “${this.#peek()}”.`);
    if (!this.names.length) this.#fail("A formula needs at least one metric.");
    return { names: this.names, value };
  }

  /**
   * @param {string} message
   * @param {number} [at]
   * @returns {never}
   */
  #fail(message, at = this.#at) {
    throw new FormulaError(message, at);
  }

  /** Skip spaces, and return the next character; "" at the end. */
  #peek() {
    while (this.text[this.#at] === " ") this.#at += 1;
    return this.text[this.#at] ?? "";
  }

  /**
   * @param {string} signs
   * @returns {string} "" if the next character is none of them
   */
  #take(signs) {
    const next = this.#peek();
    if (!next || !signs.includes(next)) return "";
    this.#at += 1;
    return next;
  }

  /** @returns {Value} */
  #sum() {
    let left = this.#product();
    for (let sign = this.#take("+-"); sign; sign = this.#take("+-")) {
      const [a, b] = [left, this.#product()];
      left = sign === "+" ? (values) => a(values) + b(values) : (values) => a(values) - b(values);
    }
    return left;
  }

  /** @returns {Value} */
  #product() {
    let left = this.#signed();
    for (let sign = this.#take("*/"); sign; sign = this.#take("*/")) {
      const [a, b] = [left, this.#signed()];
      left = sign === "*" ? (values) => a(values) * b(values) : (values) => a(values) / b(values);
    }
    return left;
  }

  /** @returns {Value} */
  #signed() {
    let negative = false;
    while (this.#take("-")) negative = !negative;
    const value = this.#operand();
    return negative ? (values) => -value(values) : value;
  }

  /** @returns {Value} */
  #operand() {
    if (this.#take("(")) return this.#group();
    const next = this.#peek();
    if (!next) this.#fail("Expected a metric or a number, got the end of the formula.");
    const [call = "", name = ""] = /^(log|exp|sqrt|abs) ?\(/.exec(this.text.slice(this.#at)) ?? [];
    if (name) {
      this.#at += call.length;
      const inner = this.#group();
      return (values) => FUNCTIONS[name](inner(values));
    }
    return this.#series() ?? this.#number() ?? this.#unknown();
  }

  /** @returns {Value} what is in the parenthesis that was just opened */
  #group() {
    const opened = this.#at - 1;
    if (++this.#depth > DEEPEST) this.#fail(`At most ${DEEPEST} parentheses within each other are read.`);
    const inner = this.#sum();
    if (!this.#take(")")) this.#fail("This parenthesis is not closed.", opened);
    this.#depth -= 1;
    return inner;
  }

  /** @returns {Value | null} */
  #series() {
    const name = this.known.find(
      (each) => this.text.startsWith(each, this.#at) && !isNamePart(this.text[this.#at + each.length], each),
    );
    if (name === undefined) return null;
    this.#at += name.length;
    if (!this.names.includes(name)) this.names.push(name);
    if (this.names.length > MOST_NAMES) this.#fail(`A formula reads at most ${MOST_NAMES} metrics.`);
    const i = this.names.indexOf(name);
    return (values) => values[i];
  }

  /** @returns {Value | null} */
  #number() {
    const [text] = /^(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:e[+-]?\d{1,3})?/i.exec(
      this.text.slice(this.#at),
    ) ?? [""];
    if (!text) return null;
    this.#at += text.length;
    const number = Number(text);
    return () => number;
  }

  /** @returns {never} */
  #unknown() {
    const [name] = /^[\w./]{1,100}/.exec(this.text.slice(this.#at)) ?? [""];
    return name
      ? this.#fail(`This run reports no metric “${name}”.`)
      : this.#fail(`Expected a metric or a number, got “${this.#peek()}”.`);
  }
}

/**
 * Return whether a character would continue a name: "loss" is not the start of "loss2".
 *
 * @param {string | undefined} next
 * @param {string} name
 */
const isNamePart = (next, name) =>
  next !== undefined && /[\w.]/.test(next) && /[\w.]/.test(name[name.length - 1]);
