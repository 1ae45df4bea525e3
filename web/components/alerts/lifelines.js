/** The history of an alert or incident: transitions, acknowledgements, notifications, new attempts. */

import { el, refill } from "../../browser/dom.js";
import { ago, clock as clockTime, moment, powers, ruleTitle } from "../../lib/format.js";
import { icon } from "../icons.js";

/** @type {Record<string, string>} */
const KINDS = { run: "run", ack: "acknowledged", unack: "unacknowledged", notification: "notified" };

/** The list of lines, asked for again when `key` changes. */
export class LifeLines {
  #key = "";

  /** @param {() => number} now */
  constructor(now) {
    this.now = now;
    this.node = el("ol.life");
  }

  /**
   * @param {string} key names the lines; an empty one is never asked for
   * @param {() => Promise<LifeLine[]>} ask
   */
  async show(key, ask) {
    if (key === this.#key) return;
    this.#key = key;
    if (!key) return refill(this.node);
    try {
      const lines = await ask();
      if (this.#key === key) refill(this.node, ...lines.map((line) => lifeLine(line, this.now())));
    } catch (error) {
      if (this.#key !== key) return;
      this.#key = "";
      if (!this.node.children.length) {
        refill(this.node, el("li.muted", {}, /** @type {Error} */ (error).message));
      }
    }
  }
}

/**
 * @param {LifeLine} line
 * @param {number} now
 */
function lifeLine({ kind, at_ms, text, state, by, rule }, now) {
  const failed = kind === "notification" && state === "failed";
  return el(
    "li",
    {},
    el("span.muted.nowrap", { title: `${moment(at_ms)}, ${ago(at_ms, now)}` }, clockTime(at_ms)),
    icon(failed ? "warning" : shapeOf(kind, state)),
    el(
      "span",
      {},
      rule ? `${ruleTitle(rule)} ` : null,
      el("b", {}, wordOf(kind, state)),
      by ? ` by ${by}` : "",
      text ? el("span.soft", {}, ` ${powers(text)}`) : null,
    ),
  );
}

/**
 * @param {LifeLine["kind"]} kind
 * @param {string} state
 */
function shapeOf(kind, state) {
  if (kind === "notification") return "mail";
  if (kind === "run") return "info";
  return kind === "transition" && state !== "resolved" ? "bell" : "check";
}

/**
 * @param {LifeLine["kind"]} kind
 * @param {string} state
 */
function wordOf(kind, state) {
  if (kind === "transition" || (kind === "notification" && state !== "sent")) return state;
  return KINDS[kind] ?? kind;
}
