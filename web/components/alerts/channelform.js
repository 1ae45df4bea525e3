/** The form to create or edit a channel. Secrets are entered here and never shown again. */

import { el, focusIn, refill } from "../../browser/dom.js";
import { ApiError } from "../../data/http.js";
import { field, formDialog } from "../form.js";
import { checkbox, selectInput, textInput } from "../inputs.js";

const MASK = "***";
/** The most common kinds come first. */
const ORDER = [
  "slack",
  "email",
  "discord",
  "telegram",
  "pagerduty",
  "apprise",
  "webhook",
  "browser",
  "alertmanager",
];
/** @param {ChannelKind} kind */
const place = ({ id }) => (ORDER.includes(id) ? ORDER.indexOf(id) : ORDER.length);
/** @param {ChannelKind[]} kinds */
export const usualFirst = (kinds) => [...kinds].sort((a, b) => place(a) - place(b));

/**
 * @typedef {{ name: string, input: HTMLInputElement, required: boolean, forget: HTMLInputElement | null,
 *   field: import("../form.js").Field }} ConfigInput required: that it must not be empty
 */

/**
 * @param {App} app
 * @param {ChannelKind[]} kinds
 * @param {Channel | null} channel null for a new one
 * @param {(channel: Channel) => void} done
 * @param {string} [chosen] the kind of a new one
 */
export function channelForm(app, kinds, channel, done, chosen = "") {
  kinds = usualFirst(kinds);
  const name = textInput(channel?.name ?? chosen, { maxlength: 100 });
  const limit = textInput(String(channel?.limit_per_hour ?? 60), {
    type: "number",
    min: 0,
    max: 100_000,
    step: 1,
  });
  const kind = selectInput(
    kinds.map((each) => [each.id, each.title]),
    channel?.kind ?? (chosen || (kinds[0]?.id ?? "")),
    channel ? { disabled: true } : {},
  );
  const on = checkbox("Enabled", channel?.enabled ?? true);
  const head = [field("name", "Name", name, "Routes refer to this name"), field("kind", "Kind", kind)];
  const limits = field(
    "limit_per_hour",
    "Limit per hour",
    limit,
    "The rest is sent as a digest, at most every ten minutes. 0: no limit",
  );
  const config = el("div.formfields");
  const fields = /** @type {import("../form.js").Field[]} */ ([]);
  /** @type {ConfigInput[]} */
  let inputs = [];
  const fill = () => {
    inputs = (kinds.find((each) => each.id === kind.value)?.fields ?? []).map((each) =>
      configInput(each, channel),
    );
    fields.splice(0, fields.length, ...head, ...inputs.map((each) => each.field), limits);
    refill(config, ...(inputs.length ? inputs.map((each) => each.field.node) : [nothingToConfigure()]));
  };
  kind.addEventListener("change", fill);
  fill();
  const run = async () => {
    for (const each of fields) askFor(each, inputs);
    const wanted = {
      name: name.value,
      enabled: on.input.checked,
      limit_per_hour: Number(limit.value),
      config: given(inputs),
    };
    done(
      await app.alerting.putChannel(channel ? wanted : { ...wanted, kind: kind.value }, channel?.id ?? null),
    );
  };
  const dialog = formDialog({
    title: channel ? `Edit ${channel.name}` : "New channel",
    fields,
    submit: channel ? "Save" : "Create",
    run,
    body: [...head.map((each) => each.node), config, limits.node, on.node],
    wide: true,
  });
  if (chosen) focusIn(config, "input, select, textarea");
  return dialog;
}

/**
 * Raise an error at a field that must not be empty, before the server is asked.
 *
 * @param {import("../form.js").Field} entered
 * @param {ConfigInput[]} inputs
 */
function askFor({ name, input }, inputs) {
  const needed =
    name === "name" || inputs.some(({ field: each, required }) => required && each.input === input);
  if (needed && !(/** @type {HTMLInputElement} */ (input).value.trim())) {
    throw new ApiError(0, { subject: name, detail: "Enter a value." });
  }
}

const nothingToConfigure = () =>
  el("p.soft", {}, "Nothing to configure. Open pages show the notifications if the browser allows them.");

/**
 * @param {ChannelKind["fields"][number]} each
 * @param {Channel | null} channel
 * @returns {ConfigInput}
 */
function configInput(each, channel) {
  const known = channel !== null && each.name in channel.config;
  const hidden = known && each.secret;
  const input = textInput(known && !each.secret ? String(channel.config[each.name]) : "", {
    placeholder: hidden ? `${MASK}  unchanged` : each.required ? "" : "optional",
  });
  const forget = hidden && !each.required ? checkbox("clear", false) : null;
  const made = field(
    `config.${each.name}`,
    titled(each.name),
    input,
    `${each.help}${each.secret ? ". Secret: it is never shown again" : ""}`,
  );
  if (forget) input.after(forget.node);
  const required = each.required && !hidden;
  return { name: each.name, input, required, forget: forget?.input ?? null, field: made };
}

/**
 * Return the name of a setting as a label: "URL", "Routing key".
 *
 * @param {string} name
 */
const titled = (name) =>
  name === "url" ? "URL" : name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

/**
 * Return what was entered; empty secret fields are omitted, so the stored secrets stay.
 *
 * @param {ConfigInput[]} inputs
 */
function given(inputs) {
  const out = /** @type {Record<string, string>} */ ({});
  for (const { name, input, forget } of inputs) {
    if (forget?.checked) out[name] = "";
    else if (input.value || !input.placeholder.startsWith(MASK)) out[name] = input.value;
  }
  return out;
}
