/** The config check tab: findings by severity, each with its remedy, and what could not be checked. */

import { el } from "../../browser/dom.js";
import { counted, num } from "../../lib/format.js";
import { configCheckOf } from "../../lib/runs/configcheck.js";
import { icon } from "../icons.js";

/**
 * @param {RunEvent[]} events
 * @returns {HTMLElement}
 */
export function configCheckList(events) {
  const result = configCheckOf(events);
  if (!result) {
    return el("p.muted", {}, "No config check. It runs at the first step if tocsin watches the optimizer.");
  }
  return el(
    "div.then",
    {},
    el(
      "p.soft",
      {},
      `${counted(result.findings.length, "finding")} in ${counted(result.checks, "check")}, `,
      `took ${num(result.tookMs, 3)} ms`,
    ),
    result.findings.length ? findingTable(result.findings) : null,
    result.unseen.length
      ? el(
          "div",
          {},
          el("h3", {}, "Not checked"),
          el("ul.soft", {}, ...result.unseen.map((what) => el("li", {}, what))),
        )
      : null,
  );
}

/** @param {import("../../lib/runs/configcheck.js").CheckFinding[]} findings */
const findingTable = (findings) =>
  el(
    "div.scroll",
    { tabindex: "0" },
    el(
      "table.plain-table.configcheck",
      {},
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ...["", "Check", "Subject", "Expected", "Got", "Remedy"].map((head) =>
            el("th", { scope: "col" }, head),
          ),
        ),
      ),
      el(
        "tbody",
        {},
        ...findings.map((one) =>
          el(
            "tr",
            {},
            el("td", { class: one.severity }, icon(one.severity, one.severity)),
            el("td", {}, el("code", {}, one.check)),
            ...[
              ["Subject", one.subject],
              ["Expected", one.expected],
              ["Got", one.got],
              ["Remedy", one.remedy],
            ].map(([head, cell]) => el("td", { "data-head": head }, el("span.prose", {}, cell))),
          ),
        ),
      ),
    ),
  );
