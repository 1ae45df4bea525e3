/** A custom rule as sentences, and what is doubtful about its limit. */

import { short } from "../format.js";
import { COMPARISONS, REDUCERS, numberOf, scopeText } from "./ruledraft.js";

/** @typedef {import("./ruledraft.js").Draft} Draft */

const BACK = /** @type {Record<string, string>} */ ({
  ">": "at or below",
  ">=": "below",
  "<": "at or above",
  "<=": "above",
  "==": "no longer equal to",
  "!=": "equal to",
});

/** @param {string} span */
const lasts = (span) => !/^0\b/.test(span.trim());

/** @param {string} text */
const limitOf = (text) => {
  const limit = numberOf(text);
  return typeof limit === "number" ? short(limit) : text.trim() || "the limit";
};

/** @param {Draft} draft */
function subject({ reducer, series, window }) {
  const name = series.trim() || "a series";
  if (reducer === "value") return `the newest value of ${name}`;
  const word = REDUCERS.find(([key]) => key === reducer)?.[1] ?? reducer;
  if (reducer === "nonfinite") return `the number of non-finite values of ${name} within ${window}`;
  if (reducer === "ratio") return `the newest value of ${name} divided by its mean over ${window}`;
  if (reducer === "rate") {
    const per = window.endsWith("steps") || window.endsWith("step") ? "step" : "second";
    return `the change of ${name} per ${per} over ${window}`;
  }
  return `the ${word} of ${name} over ${window}`;
}

/**
 * Read a rule aloud: when it fires, when it ends, and where it applies.
 *
 * @param {Draft} draft
 * @param {string} scope as `scopeText` describes it
 */
export function readAloud(draft, scope) {
  const { reducer, comparison, series, severity } = draft;
  const absent = reducer === "absent";
  const is = COMPARISONS.find(([key]) => key === comparison)?.[1] ?? comparison;
  const condition = absent
    ? `${series.trim() || "a series"} has had no value for ${draft.window}`
    : `${subject(draft)} is ${is} ${limitOf(draft.limit)}`;
  const holds = lasts(draft.for) ? `, and has been for ${draft.for}` : "";
  const back = draft.recover.trim() && comparison !== "==" && comparison !== "!=" ? draft.recover : "";
  const level = back
    ? `at ${limitOf(back)} or ${comparison.startsWith(">") ? "lower" : "higher"}`
    : `${BACK[comparison] ?? ""} ${limitOf(draft.limit)}`;
  const again = absent ? "there are values again" : `it is ${level}`;
  const end = lasts(draft.keep_firing_for)
    ? `It resolves ${draft.keep_firing_for} after ${again}`
    : `It resolves as soon as ${again}`;
  const article = severity === "info" ? "an" : "a";
  const each = /[*?]/.test(series) ? " Each matching series is checked separately." : "";
  const off = draft.enabled ? "" : " The rule is off.";
  const fires = `Fires ${article} ${severity} alert when ${condition}${holds}.`;
  return `${fires} ${end}. Applies to ${scope}.${each}${off}`;
}

/**
 * @param {Draft} draft
 * @param {Pick<RuleFields, "projects" | "runs" | "tags">} lists
 */
export const sentenceOf = (draft, lists) => readAloud(draft, scopeText(/** @type {RuleFields} */ (lists)));

/**
 * Quantities whose usual level depends on the model, the batch size or the machine, and the built-in rules
 * that compare them with the run's own level.
 *
 * @type {[string[], string[]][]}
 */
const RELATIVE = [
  [
    ["grad_norm", "gradnorm", "gnorm"],
    ["grad-explosion", "vanishing-gradient"],
  ],
  [
    ["val", "valid", "validation", "eval"],
    ["overfitting", "metric-degradation"],
  ],
  [
    ["loss", "nll", "perplexity", "ppl"],
    ["loss-spike", "loss-divergence"],
  ],
  [["step_time", "data_time", "throughput"], ["throughput-regression"]],
];

/**
 * Return the built-in rules to use instead of a fixed limit, or null if the limit is fine: it is not fixed,
 * or the quantity has the same scale in every run.
 *
 * @param {Draft} draft
 * @returns {string[] | null}
 */
export function relativeRules({ reducer, comparison, limit, series }) {
  const value = numberOf(limit);
  const fixed = ["value", "mean", "min", "max"].includes(reducer) && typeof value === "number";
  if (!fixed || value === 0 || comparison === "==" || comparison === "!=") return null;
  const parts = series.toLowerCase().split(/[/.*?-]/);
  const named = (/** @type {string[]} */ words) =>
    words.some((word) => parts.some((part) => part === word || part.split("_").includes(word)));
  const [, , losses] = RELATIVE;
  if (named(losses[0]) && named(RELATIVE[1][0])) return RELATIVE[1][1];
  return [RELATIVE[0], losses, RELATIVE[3]].find(([words]) => named(words))?.[1] ?? null;
}
