/** The list of rules: condition, severity, on or off, and changes by users. */

import { el } from "../../browser/dom.js";
import { int, ruleTitle } from "../../lib/format.js";
import { conditionText, scopeText } from "../../lib/rules/ruledraft.js";
import { levelOf, sourceText } from "../../lib/views/ruleview.js";
import { icon } from "../icons.js";

/** @typedef {import("../../lib/views/ruleview.js").AnyRule} AnyRule */
/**
 * @typedef {{ href: (id: string) => string, toggle: (rule: AnyRule) => void,
 *   copy: (rule: CustomRule) => void, remove: (rule: CustomRule) => void, may: boolean }} Acts
 */

/**
 * A toggle; pressed means on.
 *
 * @param {string} label
 * @param {boolean} on
 * @param {() => void} flip
 * @param {boolean} may
 * @param {string} focus
 */
function toggle(label, on, flip, may, focus) {
  return el(
    "button.switch",
    {
      type: "button",
      role: "switch",
      "aria-checked": String(on),
      "aria-label": label,
      title: on ? "On" : "Off",
      disabled: !may,
      "data-focus": focus,
      onclick: flip,
    },
    el("span.knob", { "aria-hidden": "true" }),
    el("span.switchword", { "aria-hidden": "true" }, on ? "on" : "off"),
  );
}

/**
 * @param {AnyRule} rule
 * @param {Acts} acts
 */
export function ruleRow(rule, acts) {
  const level = levelOf(rule);
  const own = rule.kind === "custom" ? rule : null;
  const name = own ? own.title || own.id : ruleTitle(rule.id);
  return el(
    "article.rulerow",
    { class: rule.enabled ? "" : "done", "data-rule": rule.id, "aria-label": `Rule ${name}` },
    el("span.shape", { class: rule.enabled ? `is-${level}` : "muted" }, icon(level, level)),
    el(
      "div.what",
      {},
      el(
        "h3.row",
        {},
        el("a", { href: acts.href(rule.id), "data-focus": `open-${rule.id}` }, name),
        ...chips(rule),
      ),
      el("p.soft", {}, own ? conditionText(own) : rule.title),
      own ? el("p.micro", {}, scopeText(own)) : null,
    ),
    el(
      "div.rowacts",
      {},
      own
        ? el(
            "button.btn.bare",
            {
              type: "button",
              "aria-label": `Copy ${name}`,
              title: "Copy",
              disabled: !acts.may,
              "data-focus": `copy-${rule.id}`,
              onclick: () => acts.copy(own),
            },
            icon("copy"),
          )
        : null,
      own
        ? el(
            "button.btn.bare",
            {
              type: "button",
              "aria-label": `Delete ${name}`,
              title: "Delete",
              disabled: !acts.may,
              "data-focus": `delete-${rule.id}`,
              onclick: () => acts.remove(own),
            },
            icon("trash"),
          )
        : null,
      toggle(`Enable ${name}`, rule.enabled, () => acts.toggle(rule), acts.may, `switch-${rule.id}`),
    ),
  );
}

/** @param {AnyRule} rule */
function chips(rule) {
  if (rule.kind === "custom") {
    return rule.source
      ? [
          el(
            "span.chip.tag",
            {
              title: rule.source.startsWith("pack:")
                ? "Enable it together with its pack"
                : "Defined in a file: the next apply overwrites changes made here",
            },
            sourceText(rule.source),
          ),
        ]
      : [];
  }
  const projects = rule.tunings.map((each) => (each.project === "*" ? "all projects" : each.project));
  return [
    ...projects.slice(0, 3).map((text) => el("span.chip.tag", {}, `set for ${text}`)),
    projects.length > 3 ? el("span.chip.tag", {}, `and ${int(projects.length - 3)} more`) : null,
  ];
}

/**
 * @param {RulePack} pack
 * @param {(pack: RulePack) => void} flip
 * @param {boolean} may
 */
export function packRow(pack, flip, may) {
  return el(
    "article.rulerow.packrow",
    { "data-pack": pack.name, "aria-label": `Pack ${pack.title}` },
    el("span.shape", {}, icon("box")),
    el(
      "div.what",
      {},
      el("h3", {}, pack.title),
      el("p.soft", {}, pack.description),
      el(
        "details",
        {},
        el("summary", {}, `${int(pack.rules.length)} rules`),
        el(
          "ul.packrules",
          {},
          ...pack.rules.map((rule) =>
            el(
              "li",
              {},
              icon(rule.severity, rule.severity),
              " ",
              el("b", {}, rule.title),
              el("span.muted", {}, ` ${conditionText(rule)}`),
            ),
          ),
        ),
      ),
    ),
    el(
      "div.rowacts",
      {},
      toggle(`Enable pack ${pack.title}`, pack.enabled, () => flip(pack), may, `pack-${pack.name}`),
    ),
  );
}
