/** Markdown of others as elements: made by el(), so nothing in it can become markup. */

import { el } from "../lib/dom.js";
import { markdown } from "../lib/markdown.js";

/** @typedef {import("../lib/markdown.js").Block} Block @typedef {import("../lib/markdown.js").Inline} Inline */

/** @param {string} source */
export const prose = (source) => el("div.markdown", {}, ...markdown(source).map(block));

/** @param {Inline} part */
function span(part) {
  if (part.kind === "text") return document.createTextNode(part.text);
  if (part.kind === "link") return el("a.link", { href: part.href, rel: "noopener noreferrer nofollow", target: "_blank" }, part.text);
  return el(part.kind, {}, part.text);
}

/** @param {Inline[] | undefined} parts */
const spans = (parts) => (parts ?? []).map(span);

/** Headings begin below the page's own. @param {Block} each @returns {HTMLElement} */
function block(each) {
  if (each.kind === "heading") return el(`h${Math.min(6, (each.level ?? 1) + 2)}`, {}, ...spans(each.parts));
  if (each.kind === "code") return el("pre", { tabindex: "0" }, el("code", {}, each.text));
  if (each.kind === "rule") return el("hr");
  if (each.kind === "quote") return el("blockquote", {}, ...(each.blocks ?? []).map(block));
  if (each.kind === "list") return el(each.ordered ? "ol" : "ul", {}, ...(each.items ?? []).map((item) => el("li", {}, ...spans(item))));
  if (each.kind === "table") return table(each.rows ?? []);
  return el("p", {}, ...spans(each.parts));
}

/** @param {Inline[][][]} rows */
function table([head, ...rows]) {
  const line = (/** @type {string} */ tag, /** @type {Inline[][]} */ cells) => el("tr", {}, ...cells.map((cell) => el(tag, {}, ...spans(cell))));
  return el("div.scroll", { tabindex: "0", role: "region", "aria-label": "Table" }, el("table.plain-table", {}, el("thead", {}, line("th", head)), el("tbody", {}, ...rows.map((row) => line("td", row)))));
}
