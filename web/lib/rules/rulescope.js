/** The scope of a rule: which of its runs a backtest takes, and in how many of them a series is. */

import { counted, int } from "../format.js";

/** The most runs that the server tests at once. */
export const MOST_CHOSEN = 50;
const USUAL = 8;

/**
 * Choose the runs to test until the user does: up to half of them had incidents, the others are the newest.
 *
 * @param {ScopedRun[]} runs the newest first
 * @returns {string[]}
 */
export function usualRuns(runs) {
  const troubled = runs.filter((run) => run.incidents > 0).slice(0, USUAL / 2);
  const rest = runs.filter((run) => !troubled.includes(run)).slice(0, USUAL - troubled.length);
  return runs.filter((run) => troubled.includes(run) || rest.includes(run)).map((run) => run.id);
}

/**
 * Return whether the whole name matches a glob of `*` and `?`, as the server does.
 *
 * @param {string} glob
 * @param {string} name
 */
export function globMatches(glob, name) {
  let [at, place, star, tried] = [0, 0, -1, 0];
  while (at < name.length) {
    if (glob[place] === "*") {
      star = place++;
      tried = at;
    } else if (place < glob.length && (glob[place] === "?" || glob[place] === name[at])) {
      at++;
      place++;
    } else if (star >= 0) {
      at = ++tried;
      place = star + 1;
    } else return false;
  }
  return [...glob.slice(place)].every((letter) => letter === "*");
}

/**
 * Describe which runs of the scope have the series of a rule.
 *
 * @param {string} glob
 * @param {RuleScope} scope
 */
export function coverage(glob, scope) {
  if (!glob.trim() || !scope.runs.length) return "";
  const found = scope.series.filter(({ name }) => globMatches(glob.trim(), name));
  const all = `of ${counted(scope.runs.length, "run")}`;
  if (!found.length) return "No run in scope has this series.";
  const most = int(Math.max(...found.map(({ runs }) => runs)));
  return found.length === 1
    ? `in ${most} ${all}`
    : `${int(found.length)} series, the most frequent in ${most} ${all}`;
}
