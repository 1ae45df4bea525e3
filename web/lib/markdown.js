/** A safe subset of Markdown as plain data: text only ever becomes text, and HTML in it is shown letter by letter. */

/**
 * @typedef {{ kind: "text" | "code" | "strong" | "em" | "link", text: string, href?: string, parts?: Inline[] }} Inline
 * @typedef {{ kind: "heading" | "paragraph" | "code" | "list" | "quote" | "rule" | "table", level?: number, ordered?: boolean, text?: string, parts?: Inline[], items?: Inline[][], rows?: Inline[][][], blocks?: Block[] }} Block
 */

/** Longer notes are cut here: a page must not freeze over them. */
const LONGEST = 100_000;
const DEEPEST = 4;

/** @param {string} source @param {number} [depth] @returns {Block[]} */
export function markdown(source, depth = 0) {
  const lines = source.slice(0, LONGEST).replace(/\r\n?/g, "\n").split("\n");
  /** @type {Block[]} */
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    const [block, next] = blockAt(lines, i, depth);
    if (block) blocks.push(block);
    i = next;
  }
  return blocks;
}

/** @typedef {[Block | null, number]} Found the block that begins at a line, and the line behind it */

/** @param {string[]} lines @param {number} i @param {number} depth @returns {Found} */
function blockAt(lines, i, depth) {
  const line = lines[i], heading = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
  if (!line.trim()) return [null, i + 1];
  if (/^ {0,3}(```|~~~)/.test(line)) return fence(lines, i);
  if (heading) return [{ kind: "heading", level: heading[1].length, parts: inline(heading[2]) }, i + 1];
  if (/^ {0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) return [{ kind: "rule" }, i + 1];
  if (/^ {0,3}>/.test(line) && depth < DEEPEST) return quote(lines, i, depth);
  if (ITEM.test(line)) return list(lines, i);
  if (line.includes("|") && /^[\s|:-]*-[\s|:-]*$/.test(lines[i + 1] ?? "") && lines[i + 1].includes("|")) return table(lines, i);
  return paragraph(lines, i);
}

const ITEM = /^ {0,3}([-*+]|\d{1,9}[.)])\s+(.*)$/;

/** @param {string[]} lines @param {number} i @returns {Found} */
function fence(lines, i) {
  const mark = lines[i].trim().slice(0, 3);
  let end = i + 1;
  while (end < lines.length && !lines[end].trim().startsWith(mark)) end++;
  return [{ kind: "code", text: lines.slice(i + 1, end).join("\n") }, end + 1];
}

/** @param {string[]} lines @param {number} i @param {number} depth @returns {Found} */
function quote(lines, i, depth) {
  let end = i;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end++;
  return [{ kind: "quote", blocks: markdown(lines.slice(i, end).map((line) => line.replace(/^ {0,3}> ?/, "")).join("\n"), depth + 1) }, end];
}

/** @param {string[]} lines @param {number} i @returns {Found} */
function list(lines, i) {
  const items = /** @type {string[]} */ ([]), ordered = /^\s*\d/.test(lines[i]);
  let end = i;
  for (; end < lines.length; end++) {
    const item = ITEM.exec(lines[end]);
    if (item && /^\d/.test(item[1]) !== ordered) break;
    if (item) items.push(item[2]);
    else if (/^\s+\S/.test(lines[end]) && items.length) items[items.length - 1] += ` ${lines[end].trim()}`;
    else break;
  }
  return [{ kind: "list", ordered, items: items.map((text) => inline(text)) }, end];
}

/** @param {string[]} lines @param {number} i @returns {Found} */
function table(lines, i) {
  const rows = [cells(lines[i])];
  let end = i + 2;
  for (; end < lines.length && lines[end].includes("|"); end++) rows.push(cells(lines[end]));
  return [{ kind: "table", rows: rows.map((row) => row.map((text) => inline(text))) }, end];
}

/** @param {string} line */
const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

/** @param {string[]} lines @param {number} i @returns {Found} */
function paragraph(lines, i) {
  let end = i + 1;
  while (end < lines.length && lines[end].trim() && !/^ {0,3}(#{1,6}\s|>|```|~~~)/.test(lines[end]) && !ITEM.test(lines[end])) end++;
  return [{ kind: "paragraph", parts: inline(lines.slice(i, end).map((line) => line.trim()).join("\n")) }, end];
}

/** Only addresses that show a page, never one that runs. */
const SAFE = /^(https?:\/\/|\/(?!\/)|#)/i;
const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|__([^_\n]+)__|\*([^*\s][^*\n]*)\*|\[([^\]\n]{1,400})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>"')\]]{1,2000})/g;

/** @param {string} text @returns {Inline[]} */
export function inline(text) {
  /** @type {Inline[]} */
  const out = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > last) out.push({ kind: "text", text: text.slice(last, found.index) });
    out.push(spanOf(found));
    last = found.index + found[0].length;
  }
  if (last < text.length) out.push({ kind: "text", text: text.slice(last) });
  return out;
}

/** @param {RegExpMatchArray} found @returns {Inline} */
function spanOf([whole, code, strong, strong2, em, label, href, bare]) {
  if (code !== undefined) return { kind: "code", text: code };
  if (strong ?? strong2) return { kind: "strong", text: strong ?? strong2 };
  if (em) return { kind: "em", text: em };
  if (bare) return { kind: "link", text: bare, href: bare };
  return SAFE.test(href) ? { kind: "link", text: label, href } : { kind: "text", text: whole };
}
