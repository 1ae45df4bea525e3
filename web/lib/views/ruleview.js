/** View state of the rules page, stored in the address, and the list that results from it. */

/**
 * @typedef {{ q: string, severity: string, state: string, project: string, rule: string, fresh: boolean,
 *   copy: string, series: string }} RulesView rule: the open rule; fresh: a new rule, starting as a copy of
 *   `copy`, or of `series` in `project`, if given
 */
/** @typedef {CustomRule | BuiltinRule} AnyRule */

const SEVERITIES = ["info", "warning", "critical"];
const STATES = ["on", "off", "changed"];

/**
 * @param {string} search
 * @returns {RulesView} unreadable values are ignored
 */
export function readRules(search) {
  const asked = new URLSearchParams(search);
  const one = (/** @type {string} */ key, /** @type {string[]} */ known) =>
    known.includes(asked.get(key) ?? "") ? String(asked.get(key)) : "";
  return {
    q: asked.get("q") ?? "",
    severity: one("severity", SEVERITIES),
    state: one("state", STATES),
    project: asked.get("project") ?? "",
    rule: asked.get("rule") ?? "",
    fresh: asked.get("new") === "1",
    copy: asked.get("copy") ?? "",
    series: asked.get("series") ?? "",
  };
}

/**
 * @param {RulesView} view
 * @returns {string} "" or "?q=…"
 */
export function writeRules(view) {
  const pairs = /** @type {[string, string][]} */ ([
    ["q", view.q],
    ["severity", view.severity],
    ["state", view.state],
    ["project", view.project],
    ["rule", view.rule],
    ["new", view.fresh ? "1" : ""],
    ["copy", view.fresh ? view.copy : ""],
    ["series", view.fresh ? view.series : ""],
  ]);
  const given = pairs.filter(([, value]) => value);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/**
 * Return the address of the editor with a new rule for a series.
 *
 * @param {string} series
 * @param {string} project
 */
export const ruleAddress = (series, project) =>
  `/rules${writeRules({ ...readRules(""), fresh: true, series, project })}`;

/**
 * Return the highest severity of a rule, as tuned.
 *
 * @param {AnyRule} rule
 * @returns {Level}
 */
export const levelOf = (rule) =>
  rule.kind === "custom" ? rule.severity : (rule.effective.severity ?? rule.severity);

/**
 * Return whether users changed anything about a rule.
 *
 * @param {AnyRule} rule
 */
const isChanged = (rule) => rule.kind === "custom" || rule.tunings.length > 0;

/**
 * @template {AnyRule} T
 * @param {T[]} rules
 * @param {RulesView} view
 * @returns {T[]}
 */
export function listed(rules, view) {
  const words = view.q.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (/** @type {AnyRule} */ rule) =>
    (rule.kind === "custom"
      ? [
          rule.id,
          rule.title,
          rule.series,
          rule.source,
          rule.description,
          ...rule.projects,
          ...rule.tags,
        ].join(" ")
      : `${rule.id} ${rule.title} ${rule.settings.map((each) => each.name).join(" ")}`
    ).toLowerCase();
  const inState = (/** @type {AnyRule} */ rule) =>
    !view.state || (view.state === "changed" ? isChanged(rule) : rule.enabled === (view.state === "on"));
  return rules.filter(
    (rule) =>
      (!view.severity || levelOf(rule) === view.severity) &&
      inState(rule) &&
      words.every((word) => text(rule).includes(word)),
  );
}

/**
 * Return the display name of a source.
 *
 * @param {string} source
 */
export const sourceText = (source) =>
  source.startsWith("pack:") ? `pack ${source.slice(5)}` : source ? `file ${source}` : "";
