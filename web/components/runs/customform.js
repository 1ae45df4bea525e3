/** The dialog that composes a chart: metrics by name or pattern, or a formula. */

import { el, say } from "../../browser/dom.js";
import { customName, customOf, resolve } from "../../lib/charts/customchart.js";
import { counted } from "../../lib/format.js";
import { field, formDialog } from "../form.js";
import { selectInput, textArea } from "../inputs.js";

/** @typedef {import("../../lib/charts/customchart.js").CustomKind} CustomKind */

const KINDS = /** @type {const} */ ([
  ["list", "Metrics by name"],
  ["match", "Metrics by pattern"],
  ["formula", "Formula"],
  ["spread", "Spread over ranks"],
  ["scatter", "Metric against metric"],
  ["media", "Image, histogram, text or table"],
]);
const HINTS = {
  list: "One metric per line.",
  match: "A regular expression, such as ^train/ or loss$.",
  formula: "Names, numbers, + - * / ( ), log, exp, sqrt and abs, such as train/loss - val/loss.",
  spread: "One metric, such as step_time: the largest minus the smallest value over ranks.",
  scatter: "Two metrics, one per line: the x axis, then the y axis.",
  media: "The name under which the script logs it, such as sample.",
};
const EMPTY = "Nothing to show. Choose a metric, or type a pattern or a formula.";
/** Metrics offered in the list; others can be typed. */
const MOST_OFFERED = 1_000;

/**
 * @param {{ name: string | null, known: string[], save: (name: string) => void }} o name: of the chart to
 *   edit
 */
export function customForm({ name, known, save }) {
  const before = (name && customOf(name)) || { kind: /** @type {const} */ ("list"), text: "" };
  const kind = selectInput(KINDS, before.kind, { onchange: () => show() });
  const text = textArea(before.text, { rows: "4", oninput: () => show() });
  const offered = /** @type {HTMLSelectElement} */ (
    selectInput(
      [["", "Choose…"], ...known.slice(0, MOST_OFFERED).map((each) => /** @type {const} */ ([each, each]))],
      "",
      {
        onchange: () => add(),
      },
    )
  );
  const preview = el("p.micro", { role: "status" });
  const chosen = () => customName(/** @type {CustomKind} */ (kind.value), text.value);

  function add() {
    const gap =
      text.value === text.value.trimEnd() && text.value
        ? ["list", "scatter"].includes(kind.value)
          ? "\n"
          : " "
        : "";
    text.value += gap + offered.value;
    offered.value = "";
    show();
  }

  function show() {
    const { lines, problem, formula, note } = resolve(chosen(), known);
    const shows = formula
      ? `Reads ${formula.names.join(", ")}.`
      : kind.value === "media"
        ? ""
        : `Shows ${counted(lines.length, "metric")}.`;
    const result = problem || [shows, note].filter(Boolean).join(" ");
    say(preview, `${HINTS[/** @type {CustomKind} */ (kind.value)]} ${text.value.trim() ? result : ""}`);
  }

  show();
  return formDialog({
    title: name ? "Edit chart" : "Add chart",
    fields: [
      field("kind", "Show", kind),
      field("text", "Metrics or formula", text),
      field("offered", "Insert a metric", offered),
    ],
    submit: name ? "Save" : "Add",
    run: async () => {
      const { problem } = resolve(chosen(), known);
      if (!text.value.trim()) throw new Error(EMPTY);
      if (problem) throw new Error(problem);
      save(chosen());
    },
  })
    .querySelector(".formends")
    ?.before(preview);
}
