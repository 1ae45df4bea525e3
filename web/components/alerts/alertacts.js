/** Actions on the alert of a run page: acknowledge, take back, silence. */

import { ruleTitle } from "../../lib/format.js";
import { acknowledge, giveBack } from "./ackform.js";
import { markTexts } from "./alertrow.js";
import { silenceForm, silenceOf } from "./silenceform.js";
import { told } from "../undo.js";

/**
 * @param {App} app
 * @param {Alert} alert
 * @returns {import("./diagnosis.js").Acts}
 */
export function alertActs(app, alert) {
  const marks = app.marks.of(alert.id);
  const title = ruleTitle(alert.rule);
  const rule = (/** @type {string} */ id) => {
    const other = app.alerts.all().find((each) => each.id === id);
    return other ? ruleTitle(other.rule) : "another alert";
  };
  const back = () =>
    giveBack(app, [alert]).then(
      () => told(`Acknowledgement of ${title} removed: reminders are on again`, null),
      (error) => told(`Acknowledgement not removed: ${error.message}`, null),
    );
  return {
    may: app.session.scope !== "read",
    acked: Boolean(marks.ack),
    told:
      alert.state === "resolved"
        ? []
        : markTexts(marks, { marks, silence: (id) => app.marks.silence(id), rule, now: 0, picked: false }),
    acknowledge: () =>
      marks.ack
        ? void back()
        : acknowledge(app, [alert], () => told(`${title} acknowledged`, () => void back())),
    silence: () =>
      silenceForm(app, silenceOf(alert), (silence) =>
        told(
          `Silenced: ${silence.matchers.join(", ")}`,
          () =>
            void app.desk.endSilence(silence.id).then(
              () => app.marks.stir(),
              () => {},
            ),
        ),
      ),
  };
}
