/** The dialog to acknowledge one or more alerts with a note, and the request that takes it back. */

import { el } from "../../browser/dom.js";
import { counted, powers, ruleTitle } from "../../lib/format.js";
import { field, formDialog, textArea } from "../form.js";

const LONGEST = 1000;

/**
 * @param {App} app
 * @param {Alert[]} alerts
 * @param {(alerts: Alert[]) => void} done
 */
export function acknowledge(app, alerts, done) {
  const [first] = alerts;
  const note = field(
    "note",
    "Note (optional)",
    textArea("", { maxlength: LONGEST, rows: 2 }),
    "No more reminders. You'll still hear if it escalates or resolves.",
  );
  const what =
    alerts.length === 1
      ? `${ruleTitle(first.rule)} · ${first.run_name}: ${powers(first.summary)}`
      : counted(alerts.length, "alert");
  const run = async () => {
    const text = /** @type {HTMLTextAreaElement} */ (note.input).value.trim();
    for (const alert of alerts) app.marks.take(await app.alerting.acknowledge(alert.id, text));
    app.marks.stir();
    done(alerts);
  };
  const dialog = formDialog({
    title: alerts.length === 1 ? "Acknowledge" : `Acknowledge ${counted(alerts.length, "alert")}`,
    fields: [note],
    submit: "Acknowledge",
    run,
    body: [el("p.soft", {}, what), note.node],
  });
  note.input.addEventListener("keydown", (event) => {
    const { key, shiftKey, isComposing } = /** @type {KeyboardEvent} */ (event);
    if (key !== "Enter" || shiftKey || isComposing) return;
    event.preventDefault();
    dialog.querySelector("form")?.requestSubmit();
  });
}

/**
 * @param {App} app
 * @param {Alert[]} alerts
 */
export async function unacknowledge(app, alerts) {
  for (const alert of alerts) app.marks.take(await app.alerting.unacknowledge(alert.id));
  app.marks.stir();
}
