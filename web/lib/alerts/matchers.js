/** Matchers in the server's syntax: severity="critical", rule!~"loss-.*"; one per line. */

/** @param {string} value quoted, with backslashes and quotes escaped */
export const quoted = (value) => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;

/**
 * @param {string} name
 * @param {string} value
 */
export const equals = (name, value) => `${name}=${quoted(value)}`;

/**
 * @param {string} text
 * @returns {string[]}
 */
export const linesOf = (text) =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);

/**
 * Suggest labels to match an alert by, with what each would cover.
 *
 * @param {Alert} alert
 * @returns {{ name: string, value: string, text: string, usual: boolean }[]}
 */
export function labelsOf(alert) {
  const alone = !alert.incident;
  const all = [
    { name: "incident", value: alert.incident, text: "this incident", usual: true },
    { name: "rule", value: alert.rule, text: "this rule", usual: alone },
    { name: "run_id", value: alert.run_id, text: "this run", usual: alone },
    { name: "subject", value: alert.subject, text: "this signal", usual: false },
    { name: "severity", value: alert.severity, text: "this severity", usual: false },
    { name: "project", value: alert.project, text: "this project", usual: false },
  ];
  return all.filter(({ value }) => value);
}

/**
 * Add this matcher to the lines, or remove it if it is there.
 *
 * @param {string} text
 * @param {string} matcher
 */
export function toggled(text, matcher) {
  const lines = linesOf(text);
  return (lines.includes(matcher) ? lines.filter((line) => line !== matcher) : [...lines, matcher]).join(
    "\n",
  );
}
