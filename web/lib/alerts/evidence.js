/** Formatting of evidence: powers of two for scales, units after a space, steps as "step 1 790". */

import { number } from "../exact.js";
import { int, powers, scale, short, span } from "../format.js";

/** @param {Evidence} item */
export function evidenceText(item) {
  const value = number(item.value);
  if (value === null) return powers(String(item.value));
  if (item.unit === "step") return `step ${int(value)}`;
  if (item.unit === "s") return span(value);
  if (/scale/.test(item.name) && value > 0 && Number.isInteger(Math.log2(value))) {
    return scale(value).filter(Boolean).join(" ");
  }
  const text = Number.isInteger(value) && Math.abs(value) < 1e9 ? int(value) : short(value);
  return item.unit ? `${text} ${item.unit}` : text;
}

/**
 * Return the whole diagnosis as text, to paste into a chat or a ticket.
 *
 * @param {Alert} alert
 * @param {string} address
 */
export function asText(alert, address) {
  const { diagnosis: why } = alert;
  const lines = [
    `${alert.severity}: ${alert.rule} in ${alert.run_name} (${alert.project})`,
    powers(alert.summary),
    `onset ${alert.onset_step ?? "–"}, fired ${alert.fired_step ?? "–"}, ${alert.state}`,
  ];
  if (why?.cause) lines.push("", `Likely cause: ${powers(why.cause)}`);
  const [first, ...rest] = why?.remedies ?? [];
  if (first) lines.push("", `First action: ${first.text}`, ...(first.code ? [first.code] : []));
  if (why?.evidence.length) {
    lines.push(
      "",
      "Evidence:",
      ...why.evidence.map(
        (item) =>
          `- ${item.name}: ${evidenceText(item)}${Number.isFinite(item.step) ? ` (step ${item.step})` : ""}`,
      ),
    );
  }
  if (why?.timeline?.length) {
    lines.push("", "Timeline:", ...why.timeline.map(([step, text]) => `- step ${step}: ${powers(text)}`));
  }
  if (why?.alternatives?.length) {
    lines.push("", "Other explanations:", ...why.alternatives.map((text) => `- ${powers(text)}`));
  }
  if (why?.how_to_confirm) lines.push("", `How to confirm: ${why.how_to_confirm}`);
  if (rest.length) {
    lines.push(
      "",
      "If it persists:",
      ...rest.flatMap((remedy, i) => [`${i + 1}. ${remedy.text}`, ...(remedy.code ? [remedy.code] : [])]),
    );
  }
  return [...lines, "", address].join("\n");
}
