/** Embed a chart in another page: a signed link that shows it without a login. */

import { el } from "../../browser/dom.js";
import { moment } from "../../lib/format.js";
import { outside } from "../../lib/root.js";
import { codeBlock } from "../code.js";
import { field, formDialog } from "../form.js";

const DAYS = /** @type {const} */ ([1, 7, 30, 90]);
const USUAL = 30;

/**
 * @param {import("../../data/api.js").Api} api
 * @param {string} run
 * @param {{ title: string, chart: string, log: ("x" | "y")[] }} shown chart: as in the address of the run
 *   page; log: its logarithmic axes
 */
export function embedChart(api, run, { title, chart, log }) {
  const days = /** @type {HTMLSelectElement} */ (
    el(
      "select",
      {},
      ...DAYS.map((each) => el("option", { value: String(each), selected: each === USUAL }, `${each} d`)),
    )
  );
  formDialog({
    title: `Embed ${title}`,
    fields: [
      field(
        "days",
        "Valid for",
        days,
        "Anyone who has the link sees this chart of this run, also its later values, without a login.",
      ),
    ],
    submit: "Create link",
    run: async () => show(title, await api.embed(run, { series: chart, log, days: Number(days.value) })),
  });
}

/**
 * @param {string} title
 * @param {{ path: string, until_ms: number }} made
 */
function show(title, { path, until_ms }) {
  const frame = el("iframe", {
    src: location.origin + outside(path),
    title,
    width: "100%",
    height: "320",
    loading: "lazy",
  });
  const dialog = /** @type {HTMLDialogElement} */ (
    el(
      "dialog.card.formdialog",
      { "aria-label": `Link to embed ${title}` },
      el("h2", {}, `Embed ${title}`),
      el(
        "p.then0",
        {},
        `Paste this into the other page. It is valid until ${moment(until_ms)}. Revoke it in Settings.`,
      ),
      codeBlock("HTML", frame.outerHTML),
      el(
        "div.row.formends",
        {},
        el("button.btn.primary", { type: "button", onclick: () => dialog.close() }, "Close"),
      ),
    )
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
