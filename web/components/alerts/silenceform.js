/** The form to create or edit a silence, with a preview of the open alerts it would silence. */

import { el, refill } from "../../browser/dom.js";
import { ApiError } from "../../data/http.js";
import { equals, labelsOf, linesOf, toggled } from "../../lib/alerts/matchers.js";
import { ENDS, localMs, localText } from "../../lib/duration.js";
import { sentence } from "../../lib/fielderror.js";
import { counted, int, powers, ruleTitle } from "../../lib/format.js";
import { field, formDialog } from "../form.js";
import { textArea, textInput } from "../inputs.js";
import { icon } from "../icons.js";

const PREVIEW_MS = 250;
const MOST_SHOWN = 6;
const NO_REASON = "Enter a reason, so that others know why there are no notifications.";

/**
 * Initial values of the form.
 *
 * @typedef {{ id: string | null, matchers: string[], starts_ms: number | null, ends_ms: number | null,
 *   reason: string, about: Alert | null }} Beginning
 */

/**
 * @param {Alert} alert
 * @returns {Beginning} by default its incident
 */
export const silenceOf = (alert) => ({
  id: null,
  matchers: labelsOf(alert)
    .filter(({ usual }) => usual)
    .map(({ name, value }) => equals(name, value)),
  starts_ms: null,
  ends_ms: null,
  reason: "",
  about: alert,
});
/** @returns {Beginning} */
export const blankSilence = () => ({
  id: null,
  matchers: [],
  starts_ms: null,
  ends_ms: null,
  reason: "",
  about: null,
});

/**
 * @param {App} app
 * @param {Beginning} begin
 * @param {(silence: Silence) => void} done
 */
export function silenceForm(app, begin, done) {
  const matchers = textArea(begin.matchers.join("\n"), { rows: 3, class: "mono" });
  const reason = textInput(begin.reason, { maxlength: 1000, placeholder: "why, for others" });
  const starts = textInput(begin.starts_ms === null ? "" : localText(begin.starts_ms), {
    type: "datetime-local",
  });
  const ends = textInput(localText(begin.ends_ms ?? ENDS[1].at(new Date(app.clock.now())).getTime()), {
    type: "datetime-local",
  });
  const fields = [
    field(
      "matchers",
      "Matchers (one per line, all must match)",
      matchers,
      'For example severity="critical" or project=~"deblur.*". ' +
        "Labels: rule, severity, project, run, run_id, incident, subject, host, tags",
    ),
    field("reason", "Reason", reason),
    field("ends_ms", "Until", ends),
    field("starts_ms", "From (empty: now)", starts),
  ];
  if (begin.about) fields[0].input.after(labelChips(begin.about, matchers));
  ends.before(endChoices(app, ends));
  const preview = el("div.preview", { "aria-live": "polite" });
  const run = async () => {
    if (!reason.value.trim()) throw new ApiError(0, { subject: "reason", detail: NO_REASON });
    const wanted = {
      matchers: linesOf(matchers.value),
      starts_ms: localMs(starts.value),
      ends_ms: localMs(ends.value) ?? 0,
      reason: reason.value,
    };
    const made = await app.alerting.putSilence(
      begin.starts_ms !== null && starts.value === localText(begin.starts_ms)
        ? { ...wanted, starts_ms: begin.starts_ms }
        : wanted,
      begin.id,
    );
    app.marks.stir();
    done(made);
  };
  const dialog = formDialog({
    title: begin.id ? "Edit silence" : "New silence",
    fields,
    submit: begin.id ? "Save" : "Silence",
    run,
    body: [...fields.map((each) => each.node), preview],
    wide: true,
  });
  watch(app, matchers, preview, dialog);
  if (begin.about) reason.focus();
}

/**
 * Labels of the alert, added or removed by a click.
 *
 * @param {Alert} alert
 * @param {HTMLTextAreaElement} matchers
 */
function labelChips(alert, matchers) {
  const buttons = labelsOf(alert).map(({ name, value, text }) => {
    const matcher = equals(name, value);
    const button = el(
      "button.btn.tinychip",
      {
        type: "button",
        title: matcher,
        onclick: () => {
          matchers.value = toggled(matchers.value, matcher);
          matchers.dispatchEvent(new Event("input"));
        },
      },
      text,
    );
    return { matcher, button };
  });
  const mark = () => {
    for (const { matcher, button } of buttons) {
      button.setAttribute("aria-pressed", String(linesOf(matchers.value).includes(matcher)));
    }
  };
  matchers.addEventListener("input", mark);
  mark();
  return el(
    "div.row.tightwrap",
    { role: "group", "aria-label": "Labels of this alert" },
    ...buttons.map(({ button }) => button),
  );
}

/**
 * @param {App} app
 * @param {HTMLInputElement} ends
 */
function endChoices(app, ends) {
  const buttons = ENDS.map((each) =>
    el(
      "button.btn.tinychip",
      {
        type: "button",
        onclick: () => {
          ends.value = localText(each.at(new Date(app.clock.now())).getTime());
          mark();
        },
      },
      each.text,
    ),
  );
  const mark = () =>
    ENDS.forEach((each, i) =>
      buttons[i].setAttribute(
        "aria-pressed",
        String(ends.value === localText(each.at(new Date(app.clock.now())).getTime())),
      ),
    );
  ends.addEventListener("input", mark);
  mark();
  return el("div.row.tightwrap", { role: "group", "aria-label": "Until" }, ...buttons);
}

/**
 * Request matching open alerts, shortly after the last key.
 *
 * @param {App} app
 * @param {HTMLTextAreaElement} matchers
 * @param {HTMLElement} host
 * @param {HTMLDialogElement} dialog
 */
function watch(app, matchers, host, dialog) {
  /** @type {ReturnType<typeof setTimeout>} */
  let timer;
  let turn = 0;
  const look = async () => {
    const mine = ++turn;
    const lines = linesOf(matchers.value);
    if (!lines.length) return refill(host, el("p.muted", {}, "Enter at least one matcher."));
    try {
      const { items, open } = await app.alerting.trySilence(lines);
      if (mine === turn) refill(host, ...matching(app, items, open));
    } catch (error) {
      if (mine === turn) {
        refill(
          host,
          el("p.soft", {}, icon("warning"), " ", error instanceof ApiError ? sentence(error) : String(error)),
        );
      }
    }
  };
  matchers.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PREVIEW_MS);
  });
  dialog.addEventListener("close", () => clearTimeout(timer));
  void look();
}

/**
 * @param {App} app
 * @param {string[]} ids
 * @param {number} open
 */
function matching(app, ids, open) {
  const known = new Map(app.alerts.all().map((alert) => [alert.id, alert]));
  const shown = ids.slice(0, MOST_SHOWN);
  const line = (/** @type {string} */ id) => {
    const alert = known.get(id);
    return el(
      "li",
      {},
      alert ? icon(alert.severity, alert.severity) : null,
      " ",
      alert
        ? el(
            "span",
            {},
            el("b", {}, ruleTitle(alert.rule)),
            ` ${alert.run_name} `,
            el("span.muted", {}, powers(alert.summary)),
          )
        : id,
    );
  };
  return [
    el(
      "p.strong",
      {},
      ids.length
        ? `Matches ${counted(ids.length, "open alert")} of ${int(open)}`
        : `Matches none of ${counted(open, "open alert")}; applies to future ones`,
    ),
    el("ul.matching", {}, ...shown.map(line)),
    ids.length > shown.length ? el("p.micro", {}, `and ${int(ids.length - shown.length)} more`) : null,
  ];
}
