/** The dialog with a table of values of a chart. */

import { el } from "../../browser/dom.js";

/**
 * @param {string} title
 * @param {Node[]} [acts] beside the title
 * @returns {HTMLElement} what is below the title, to be filled
 */
export function valuesDialog(title, acts = []) {
  const body = el("div.dialogbody", {}, el("p.muted", {}, "–"));
  const close = el("button.btn", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = /** @type {HTMLDialogElement} */ (
    el(
      "dialog.card",
      { "aria-label": `Values of ${title}` },
      el("div.bar", {}, el("h2", {}, title), el("span.grow"), ...acts, close),
      body,
    )
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return body;
}

/**
 * @param {string} label
 * @param {{ text: string, right: boolean }[]} heads
 * @param {(Node | string)[][]} rows
 */
export const valueTable = (label, heads, rows) =>
  el(
    "div.scroll",
    { tabindex: "0", role: "region", "aria-label": label },
    el(
      "table.plain-table",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ...heads.map(({ text, right }) => el("th", { scope: "col", class: right ? "n" : "" }, text)),
        ),
      ),
      el(
        "tbody",
        {},
        ...rows.map((cells) =>
          el("tr", {}, ...cells.map((cell, i) => el("td", { class: heads[i].right ? "n mono" : "" }, cell))),
        ),
      ),
    ),
  );
