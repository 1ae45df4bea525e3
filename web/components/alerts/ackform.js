/** The dialog to acknowledge one or more incidents with a note, and the request that takes it back. */

import { el } from "../../browser/dom.js";
import { counted, powers, ruleTitle } from "../../lib/format.js";
import { incidentId } from "../../lib/alerts/incidents.js";
import { field, formDialog } from "../form.js";
import { textArea } from "../inputs.js";

const LONGEST = 1000;

/**
 * @param {App} app
 * @param {Alert[]} alerts one of each incident
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
      : counted(alerts.length, "incident");
  const run = async () => {
    const text = /** @type {HTMLTextAreaElement} */ (note.input).value.trim();
    for (const alert of alerts) {
      take(app, await app.alerting.acknowledgeIncident(incidentId(alert), text));
    }
    app.marks.stir();
    done(alerts);
  };
  const dialog = formDialog({
    title: alerts.length === 1 ? "Acknowledge" : `Acknowledge ${counted(alerts.length, "incident")}`,
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
 * @param {Alert[]} alerts one of each incident
 */
export async function unacknowledge(app, alerts) {
  for (const alert of alerts) take(app, await app.alerting.unacknowledgeIncident(incidentId(alert)));
  app.marks.stir();
}

/**
 * Apply the server's response to the marks of all alerts of the incident.
 *
 * @param {App} app
 * @param {{ ack: AlertMarks["ack"], alerts: Alert[] }} answer
 */
function take(app, { ack, alerts }) {
  for (const alert of alerts) app.marks.take({ ...app.marks.of(alert.id), ack });
}
