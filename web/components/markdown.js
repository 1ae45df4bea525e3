/**
 * Draws Markdown that the server has parsed into nodes. el() creates every element, so the text cannot become
 * markup.
 */

import { el, refill } from "../browser/dom.js";
import { Latest } from "../data/latestrequest.js";

/** @typedef {(text: string) => Promise<{ nodes: MarkdownNode[] }>} Parse */

/** @type {Record<string, string>} */
const TAGS = {
  paragraph: "p",
  quote: "blockquote",
  list: "ul",
  ordered_list: "ol",
  item: "li",
  row: "tr",
  head_cell: "th",
  cell: "td",
  strong: "strong",
  em: "em",
  break: "br",
  rule: "hr",
};

/** Markdown that follows the input. If the server does not respond, it shows the source text. */
export class Prose {
  node = el("div.markdown");

  /**
   * @param {Parse} parse
   * @param {number} [above] levels of headings above those of the text
   */
  constructor(parse, above = 2) {
    this.latest = new Latest(
      parse,
      ({ nodes }) => this.#draw(nodes.map((node) => drawn(node, above))),
      (text) => this.#draw([el("pre", { tabindex: "0" }, text)]),
    );
  }

  /**
   * @param {string} text
   * @returns {HTMLElement} the element, filled when the server responds
   */
  show(text) {
    this.node.setAttribute("aria-busy", "true");
    void this.latest.want(text).then(() => this.node.removeAttribute("aria-busy"));
    return this.node;
  }

  /** @param {Node[]} nodes */
  #draw(nodes) {
    refill(this.node, ...nodes);
  }
}

/** @param {MarkdownNode[] | undefined} nodes */
const all = (nodes) => (nodes ?? []).map((node) => drawn(node));

/**
 * Headings start below the page's own.
 *
 * @param {MarkdownNode} node
 * @param {number} [above]
 * @returns {Node}
 */
function drawn({ kind, text = "", level = 1, href, children }, above = 2) {
  if (kind === "text") return document.createTextNode(text);
  if (kind === "code") return el("code", {}, text);
  if (kind === "code_block") return el("pre", { tabindex: "0" }, el("code", {}, text));
  if (kind === "link") {
    return el("a.link", { href, rel: "noopener noreferrer nofollow", target: "_blank" }, ...all(children));
  }
  if (kind === "heading") return el(`h${Math.min(6, level + above)}`, {}, ...all(children));
  if (kind === "table") return table(children ?? []);
  return el(TAGS[kind] ?? "span", {}, ...all(children));
}

/** @param {MarkdownNode[]} rows */
const table = ([head, ...rows]) =>
  el(
    "div.scroll",
    { tabindex: "0", role: "region", "aria-label": "Table" },
    el("table.plain-table", {}, el("thead", {}, drawn(head)), el("tbody", {}, ...all(rows))),
  );
