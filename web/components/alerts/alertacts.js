/** Actions on the alert of a run page: acknowledge, take back, silence. */

import { ruleTitle } from "../../lib/format.js";
import { notLoaded, showUndo } from "../undo.js";
import { markTexts } from "./marktexts.js";

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
  const back = async () =>
    (await import("./ackform.js")).unacknowledge(app, [alert]).then(
      () => showUndo(`Acknowledgement of ${title} removed: reminders are on again`, null),
      (error) => showUndo(`Acknowledgement not removed: ${error.message}`, null),
    );
  const silenced = (/** @type {Silence} */ silence) =>
    showUndo(
      `Silenced: ${silence.matchers.join(", ")}`,
      () =>
        void app.alerting.endSilence(silence.id).then(
          () => app.marks.stir(),
          () => {},
        ),
    );
  return {
    may: app.session.scope !== "read",
    acked: Boolean(marks.ack),
    chips:
      alert.state === "resolved"
        ? []
        : markTexts(marks, { marks, silence: (id) => app.marks.silence(id), rule, now: 0, picked: false }),
    acknowledge: () =>
      marks.ack
        ? void back()
        : void import("./ackform.js").then(
            ({ acknowledge }) =>
              acknowledge(app, [alert], () => showUndo(`${title} acknowledged`, () => void back())),
            notLoaded,
          ),
    silence: () =>
      void import("./silenceform.js").then(
        ({ silenceForm, silenceOf }) => silenceForm(app, silenceOf(alert), silenced),
        notLoaded,
      ),
  };
}
