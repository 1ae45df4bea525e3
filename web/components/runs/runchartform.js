/** The dialog that adds or edits a chart of runs: its kind, and what each axis shows. */

import { el } from "../../browser/dom.js";
import { quantityText, readQuantity } from "../../lib/charts/quantity.js";
import { readRunChart, runChartText } from "../../lib/charts/runcharts.js";
import { field, formDialog } from "../form.js";
import { selectInput, textInput } from "../inputs.js";

/** Quantities offered; others can be typed. */
const MOST_OFFERED = 1_000;
const HINT = "last(loss), min(val/loss), max(acc), or a setting such as config.lr";
let serial = 0;

/**
 * @param {{ before: string | null, kinds: { kind: string, title: string, fields: string[] }[], choices:
 * string[],
 *   save: (text: string) => void }} o choices: quantities that are offered
 */
export function runChartForm({ before, kinds, choices, save }) {
  const known = before === null ? null : readRunChart(before);
  const options = el(
    "datalist",
    { id: `quantities-${++serial}` },
    ...choices.slice(0, MOST_OFFERED).map((value) => el("option", { value })),
  );
  const kind = selectInput(
    kinds.map((each) => /** @type {const} */ ([each.kind, each.title])),
    known?.kind ?? kinds[0].kind,
    { onchange: () => show() },
  );
  const boxes = [0, 1].map((i) => {
    const quantity = known?.quantities[i];
    const input = textInput(quantity ? quantityText(quantity) : "", { list: options.id });
    return { input, field: field(`quantity${i}`, "Value", input, HINT) };
  });
  const labels = () => kinds.find((each) => each.kind === kind.value)?.fields ?? [];

  function show() {
    boxes.forEach(({ field: { node } }, i) => {
      node.hidden = i >= labels().length;
      const label = node.querySelector(".formlabel");
      if (label) label.textContent = labels()[i] ?? "";
    });
  }

  show();
  return formDialog({
    title: before === null ? "Add chart of runs" : "Edit chart of runs",
    fields: [field("kind", "Show", kind), ...boxes.map((box) => box.field)],
    submit: before === null ? "Add" : "Save",
    run: async () => {
      const quantities = boxes.slice(0, labels().length).map(({ input }, i) => {
        const read = readQuantity(input.value);
        if (!read) throw new Error(`${labels()[i]}: enter ${HINT}.`);
        return read;
      });
      save(runChartText({ kind: kind.value, quantities }));
    },
  }).append(options);
}
