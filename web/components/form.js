/** Forms: label, hint and error for each field. An API error is shown at the field it names. */

import { el, focusIn, refill } from "../browser/dom.js";
import { ApiError } from "../data/http.js";
import { fieldOf, sentence } from "../lib/fielderror.js";
import { icon } from "./icons.js";

/** @typedef {{ name: string, node: HTMLElement, input: HTMLElement, fail: (text: string) => void }} Field */

let serial = 0;

/**
 * @param {string} name its name in the API
 * @param {string} label
 * @param {HTMLElement} input or a group of inputs
 * @param {string} [hint]
 * @returns {Field}
 */
export function field(name, label, input, hint = "") {
  const id = `f${serial++}`;
  const error = el("p.fielderror", { id: `${id}-error`, role: "alert", hidden: true });
  const group = !/^(INPUT|SELECT|TEXTAREA)$/.test(input.tagName);
  input.id = id;
  input.dataset.field = name;
  input.setAttribute("aria-describedby", `${id}-hint ${id}-error`);
  if (group) {
    input.setAttribute("role", "group");
    input.setAttribute("aria-labelledby", `${id}-label`);
  }
  const node = el(
    "div.formfield",
    {},
    group
      ? el("span.formlabel", { id: `${id}-label` }, label)
      : el("label.formlabel", { for: id, id: `${id}-label` }, label),
    input,
    el("p.micro", { id: `${id}-hint`, hidden: !hint }, hint),
    error,
  );
  return {
    name,
    node,
    input,
    fail: (text) => {
      refill(error, ...(text ? [icon("warning"), " ", text] : []));
      error.hidden = !text;
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
  };
}

/**
 * Show an error at the field it names, else in `rest`; the field gets the focus.
 *
 * @param {Field[]} fields
 * @param {HTMLElement} rest
 * @param {unknown} error
 * @returns {Field | null}
 */
export function complain(fields, rest, error) {
  for (const each of fields) each.fail("");
  rest.hidden = true;
  if (!error) return null;
  const apiError = error instanceof ApiError ? error : null;
  const name = fieldOf(
    apiError?.problem.subject,
    fields.map((each) => each.name),
  );
  const found = fields.find((each) => each.name === name);
  const text = apiError ? sentence(apiError) : /** @type {Error} */ (error).message;
  if (found) {
    found.fail(text);
    (found.input.matches("input, select, textarea")
      ? found.input
      : /** @type {HTMLElement | null} */ (found.input.querySelector("input, select, textarea, button"))
    )?.focus();
    return found;
  }
  refill(
    rest,
    icon("warning"),
    " ",
    apiError?.problem.subject ? `${apiError.problem.subject}: ${text}` : text,
  );
  rest.hidden = false;
  return null;
}

/**
 * Open a dialog with fields; `run` performs its action, and errors are shown in the dialog. Focus returns to
 * where it was.
 *
 * @param {{ title: string, fields: Field[], submit: string, run: () => Promise<void>, body?: Node[], wide?:
 *   boolean }} o body: replaces the default layout of the fields
 * @returns {HTMLDialogElement}
 */
export function formDialog({
  title,
  fields,
  submit,
  run,
  body = fields.map((each) => each.node),
  wide = false,
}) {
  // From a second click while the code of this dialog was loaded.
  const open = [...document.querySelectorAll("dialog")].find(
    (each) => each.open && each.getAttribute("aria-label") === title,
  );
  if (open) return open;
  const rest = el("p.fielderror", { role: "alert", hidden: true });
  const word = el("span", {}, submit);
  const go = /** @type {HTMLButtonElement} */ (el("button.btn.primary", { type: "submit" }, word));
  const form = el(
    "form",
    { novalidate: true },
    el("h2", {}, title),
    ...body,
    rest,
    el(
      "div.row.formends",
      {},
      go,
      el("button.btn", { type: "button", onclick: () => dialog.close() }, "Cancel"),
    ),
  );
  const dialog = /** @type {HTMLDialogElement} */ (
    el("dialog.card.formdialog", { "aria-label": title, class: wide ? "wide" : "" }, form)
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = true;
    try {
      await run();
      dialog.close();
    } catch (error) {
      complain(fields, rest, error);
    } finally {
      go.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  focusIn(form, "input, select, textarea");
  return dialog;
}

/**
 * Ask for confirmation of something that cannot be undone.
 *
 * @param {string} title
 * @param {string} text
 * @param {string} submit
 * @param {() => Promise<void>} run
 */
export function ask(title, text, submit, run) {
  const dialog = formDialog({ title, fields: [], submit, run, body: [el("p.soft", {}, text)] });
  focusIn(dialog, "button[type=submit]");
  return dialog;
}

/**
 * Show why a list could not be loaded, and what to do next.
 *
 * @param {HTMLElement} host
 * @param {unknown} error
 * @param {() => void} again
 */
export function failed(host, error, again) {
  const { message } = /** @type {Error} */ (error);
  const denied = error instanceof ApiError && error.status === 403;
  refill(
    host,
    el(
      "div.pad.notice",
      { role: "alert" },
      el("h2", {}, icon("info"), " ", denied ? "Not allowed with this login" : "Could not be loaded"),
      el("p.soft", {}, message),
      el(
        "p.soft",
        {},
        denied
          ? "Log in with a token of a wider scope. To create one: tocsin-server token create --scope."
          : "Data already shown stays. The page tries again when the server is back.",
      ),
      el("button.btn", { type: "button", onclick: again }, "Try again"),
    ),
  );
}

/**
 * A note that this login can only read, if so; the server would reject changes.
 *
 * @param {App} app
 * @param {"write" | "admin"} needed
 */
export function scopeNote({ session }, needed) {
  const may = session.scope === "admin" || session.scope === needed;
  return may
    ? null
    : el(
        "p.soft.scopenote",
        {},
        icon("info"),
        ` This login has scope ${session.scope}. Changes here need scope ${needed}.`,
      );
}
