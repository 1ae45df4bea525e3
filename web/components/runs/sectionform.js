/** The dialog that moves a chart of a run page to another section, also to a new one. */

import { el } from "../../browser/dom.js";
import { PINNED, RANKS } from "../../lib/charts/sections.js";
import { field, formDialog } from "../form.js";
import { textInput } from "../inputs.js";

/** Letters of the name of a section. */
const LONGEST = 60;

/**
 * @param {string} title of the chart
 * @param {import("../../lib/charts/sections.js").Section[]} sections those of the page
 * @param {(key: string) => void} move
 */
export function askSection(title, sections, move) {
  const known = sections.filter(({ key }) => key !== RANKS && key !== PINNED);
  const id = "known-sections";
  const input = textInput("", { list: id, maxlength: String(LONGEST), required: "" });
  const name = field("section", "Section", input, "An existing section, or a new name.");
  name.node.append(el("datalist", { id }, ...known.map((each) => el("option", { value: each.title }))));
  formDialog({
    title: `Move ${title}`,
    fields: [name],
    submit: "Move",
    run: async () => {
      const wanted = input.value.trim();
      if (!wanted) throw new Error("Enter the name of a section.");
      move(known.find((each) => each.title === wanted)?.key ?? wanted);
    },
  });
}
