/** The exact records of a chart as a table. */

import { el, refill } from "../../browser/dom.js";
import { number } from "../../lib/exact.js";
import { int, moment, word } from "../../lib/format.js";

/** The most records listed; the file has all. */
const MOST = 500;

/**
 * @param {import("../../data/api.js").Api} api
 * @param {string} run
 * @param {string} name
 * @param {StepWindow} window
 */
export async function showValues(api, run, name, window) {
  const body = el("div.dialogbody", {}, el("p.muted", {}, "–"));
  const close = el("button.btn", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = /** @type {HTMLDialogElement} */ (
    el(
      "dialog.card",
      { "aria-label": `Values of ${name}` },
      el(
        "div.bar",
        {},
        el("h2", {}, name),
        el("span.grow"),
        el("a.btn", { href: api.csv(run, [name], window), download: "" }, "CSV"),
        close,
      ),
      body,
    )
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  try {
    const { items, next } = await api.records(run, [name], window, MOST);
    refill(
      body,
      table(
        name,
        items.filter((item) => name in item.values),
      ),
      el(
        "p.micro.then",
        {},
        next
          ? `The first ${int(items.length)} records in the window; the CSV file has all.`
          : `${int(items.length)} records in the window.`,
      ),
    );
  } catch (error) {
    refill(body, el("p.soft", {}, `${/** @type {Error} */ (error).message} Close this and try again.`));
  }
}

/**
 * Format every digit as it was sent.
 *
 * @param {unknown} value
 */
export function exactText(value) {
  const given = number(value);
  return given === null ? "–" : word(given) || (Object.is(given, -0) ? "-0" : String(given));
}

/**
 * @param {string} name
 * @param {RecordRow[]} items
 */
function table(name, items) {
  const head = ["Step", "Attempt", "Rank", "Value", "Time"];
  return el(
    "div.scroll",
    { tabindex: "0", role: "region", "aria-label": "Records" },
    el(
      "table.plain-table",
      {},
      el(
        "thead",
        {},
        el("tr", {}, ...head.map((text, i) => el("th", { scope: "col", class: i < 4 ? "n" : "" }, text))),
      ),
      el(
        "tbody",
        {},
        ...items.map((item) =>
          el(
            "tr",
            {},
            el("td.n", {}, int(item.step)),
            el("td.n", {}, int(item.attempt)),
            el("td.n", {}, int(item.rank)),
            el("td.n.mono", {}, exactText(item.values[name])),
            el("td", {}, moment(item.time_ms)),
          ),
        ),
      ),
    ),
  );
}
