/** The form to tune a built-in rule for one project or for all: on or off, severity, settings. */

import { el } from "../../browser/dom.js";
import { numberOf } from "../../lib/rules/ruledraft.js";
import { settingHint, settingName } from "../../lib/rules/rulesettings.js";
import { complain, field } from "../form.js";
import { selectInput, textInput } from "../inputs.js";

const AS_IT_IS = /** @type {const} */ (["", "default"]);

/**
 * @typedef {{ project: string, enabled: boolean | null, severity: string | null, settings: Record<string,
 *   number | string | null> }} Tuned
 */

export class BuiltinForm {
  /**
   * @param {BuiltinRule} rule
   * @param {string} project "*" for all
   * @param {{ changed: () => void, save: () => void }} o
   * @param {Tuned} [begun] unsaved input from an earlier visit
   */
  constructor(rule, project, { changed, save }, begun) {
    const tuning = begun ?? rule.tunings.find((each) => each.project === project);
    this.rule = rule;
    this.project = project;
    this.rest = el("p.fielderror", { role: "alert", hidden: true });
    this.enabled = selectInput(
      [AS_IT_IS, ["true", "on"], ["false", "off"]],
      tuning?.enabled === true || tuning?.enabled === false ? String(tuning.enabled) : "",
    );
    this.severity = selectInput(
      [
        ["", `default (up to ${rule.severity})`],
        ["info", "info"],
        ["warning", "warning"],
        ["critical", "critical"],
      ],
      tuning?.severity ?? "",
    );
    this.settings = rule.settings.map((each) => ({
      ...each,
      input: textInput(tuning && each.name in tuning.settings ? String(tuning.settings[each.name]) : "", {
        inputmode: "decimal",
        placeholder: String(rule.effective.settings[each.name] ?? each.value),
      }),
    }));
    this.fields = [
      field("enabled", "Enabled", this.enabled),
      field("severity", "Severity", this.severity, "for all alerts of this rule"),
      ...this.settings.map((each) =>
        field(`settings.${each.name}`, settingName(each.name), each.input, settingHint(each)),
      ),
    ];
    for (const { input } of this.fields) {
      input.addEventListener("input", changed);
    }
    this.node = el(
      "form.ruleform.tuned",
      {
        novalidate: true,
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          save();
        },
      },
      el(
        "section.card.pad",
        { "aria-label": "Settings" },
        el("h2", {}, project === "*" ? "In all projects" : `In project ${project}`),
        this.rest,
        el("div.settinggrid", {}, ...this.fields.map((each) => each.node)),
      ),
      el("button", { type: "submit", hidden: true, tabindex: "-1" }, "Save"),
    );
  }

  /**
   * Return what the form holds.
   *
   * @returns {Tuned}
   */
  get tuning() {
    const settings = Object.fromEntries(
      this.settings
        .filter(({ input }) => input.value.trim())
        .map(({ name, input }) => [name, numberOf(input.value)]),
    );
    return {
      project: this.project,
      enabled: this.enabled.value ? this.enabled.value === "true" : null,
      severity: this.severity.value || null,
      settings,
    };
  }

  get isEmpty() {
    const { enabled, severity, settings } = this.tuning;
    return enabled === null && severity === null && !Object.keys(settings).length;
  }

  /**
   * @param {unknown} error
   * @returns {boolean}
   */
  complain(error) {
    return Boolean(complain(this.fields, this.rest, error));
  }
}
