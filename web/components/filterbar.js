/** Choices above a list with their counts, one of them selected. */

import { el, say } from "../browser/dom.js";
import { int } from "../lib/format.js";

/**
 * @param {string} label
 * @param {readonly (readonly [string, string])[]} choices key and text
 * @param {(key: string) => void} choose
 * @returns {{ node: HTMLElement, show: (chosen: string, counts?: Record<string, number>) => void }}
 */
export function segments(label, choices, choose) {
  const buttons = choices.map(([key, text]) =>
    el("button", { type: "button", "data-state": key, onclick: () => choose(key) }, `${text} `, el("b")),
  );
  return {
    node: el("span.seg.scrollseg", { role: "group", "aria-label": label }, ...buttons),
    show: (chosen, counts = {}) => {
      for (const button of buttons) {
        const key = String(button.dataset.state);
        const number = button.querySelector("b");
        button.setAttribute("aria-pressed", String(key === chosen));
        if (number) say(number, key in counts ? int(counts[key]) : "");
      }
    },
  };
}
