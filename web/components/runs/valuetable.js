/** The exact records of a chart as a table. */

import { el, refill } from "../../browser/dom.js";
import { byStep } from "../../lib/charts/recordrows.js";
import { number } from "../../lib/exact.js";
import { counted, int, moment, word } from "../../lib/format.js";
import { valuesDialog, valueTable } from "./valuesdialog.js";

/** The most records listed; the file has all. */
const MOST = 500;

/**
 * What a chart shows, by record.
 *
 * @typedef {{ head: string, of: (values: Record<string, unknown>) => unknown }} Column
 * @typedef {{ title: string, names: string[], columns: Column[] }} Values names: the series to load
 */

/**
 * @param {import("../../data/api.js").Api} api
 * @param {string} run
 * @param {Values} shown
 * @param {StepWindow} window
 */
export async function showValues(api, run, { title, names, columns }, window) {
  const csv = el("a.btn", { href: api.csv(run, names, window), download: "" }, "CSV");
  const body = valuesDialog(title, [csv]);
  try {
    const { items, next } = await api.records(run, names, window, MOST);
    const rows = byStep(items, columns);
    refill(
      body,
      table(rows, columns),
      el(
        "p.micro.then",
        {},
        next
          ? `From the first ${int(items.length)} records in the window; the CSV file has all.`
          : `${counted(rows.length, "row")} in the window.`,
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
function exactText(value) {
  const given = number(value);
  return given === null ? "–" : word(given) || (Object.is(given, -0) ? "-0" : String(given));
}

/**
 * @param {(RecordRow & { cells: unknown[] })[]} rows
 * @param {Column[]} columns
 */
function table(rows, columns) {
  const heads = ["Step", "Attempt", "Rank", ...columns.map(({ head }) => head), "Time"];
  return valueTable(
    "Records",
    heads.map((text, i) => ({ text, right: i < heads.length - 1 })),
    rows.map(({ step, attempt, rank, cells, time_ms }) => [
      ...[step, attempt, rank].map((each) => int(each)),
      ...cells.map(exactText),
      moment(time_ms),
    ]),
  );
}
