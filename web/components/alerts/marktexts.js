/** What was done about an alert: acknowledged, silenced, inhibited. */

import { clock as clockTime, moment } from "../../lib/format.js";

/**
 * @typedef {{ marks: AlertMarks, silence: (id: string) => Silence | null, rule: (id: string) => string, now:
 *   number, picked: boolean, spark?: Spark | null }} RowContext spark: the curve of the signal
 */

/**
 * Describe who did what and when, for chips and the pane.
 *
 * @param {AlertMarks} marks
 * @param {RowContext} context
 * @returns {{ shape: string, text: string, title: string }[]}
 */
export function markTexts(marks, context) {
  const out = [];
  if (marks.ack) {
    out.push({
      shape: "check",
      text: `Acknowledged by ${marks.ack.by}`,
      title: `Acknowledged ${moment(marks.ack.at_ms)}${marks.ack.note ? `: ${marks.ack.note}` : ""}`,
    });
  }
  for (const id of marks.silenced_by) {
    const silence = context.silence(id);
    out.push({
      shape: "mute",
      text: silence ? `silenced until ${clockTime(silence.ends_ms).slice(0, 5)}` : "silenced",
      title: silence ? `By ${silence.author}, until ${moment(silence.ends_ms)}: ${silence.reason}` : id,
    });
  }
  for (const id of marks.inhibited_by) {
    out.push({
      shape: "down",
      text: `inhibited by ${context.rule(id)}`,
      title: "An open alert of the same run explains this one (inhibition)",
    });
  }
  return out;
}
