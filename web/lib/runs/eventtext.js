/** The text of a run's event. Events of unknown kinds are listed field by field. */

import { flatten, valueText } from "../flatten.js";
import { bytes, counted, int, num } from "../format.js";

/**
 * @typedef {Record<string, unknown>} Data
 * @typedef {(data: Data) => string} Telling "" if the data is malformed
 */

/**
 * @param {unknown} value
 * @returns {Data[]}
 */
const objects = (value) =>
  Array.isArray(value) ? value.filter((one) => one && typeof one === "object") : [];
/** @param {unknown} value */
const text = (value) => (typeof value === "string" ? value : "");
/** @param {unknown} value */
const number = (value) => (typeof value === "number" ? valueText(value) : text(value));
/** @param {...string} parts */
const line = (...parts) => parts.filter(Boolean).join(" · ");

/**
 * Append fields that the sentence doesn't use, because a script may add its own.
 *
 * @param {Data} data
 * @param {string[]} handled
 */
const rest = (data, handled) =>
  flatten(Object.fromEntries(Object.entries(data).filter(([key]) => !handled.includes(key))))
    .map(([key, value]) => `${key} ${value}`)
    .join(" · ");

const SOURCES = new Map([
  ["clip", "the script's clipping"],
  ["own", "sampled by the hook"],
  ["local", "sampled by the hook, this rank's part"],
]);

/** Descriptions of when a gradient norm is measured. */
export const MEASURED = new Map([
  ["before clipping", "before clipping"],
  ["after clipping", "after clipping, so gradient rules cannot fire"],
  ["unknown", "the script changed the gradients first, so clipping may be included"],
]);

const PARTS = new Map([
  ["divided", "each was divided by the number of losses"],
  ["items", "each was divided by the total number of items"],
  ["same-divisor", "all were divided by the same number"],
  ["terms", "they are terms of one objective"],
  ["one-batch", "they come from one batch"],
]);

/** @param {unknown} list */
const lengthOf = (list) => (Array.isArray(list) ? list.length : 0);

/** @param {Data} one */
function optimizerText(one) {
  const name = one.name && one.name !== "opt1" ? ` ${text(one.name)}` : "";
  const lr = number(/** @type {Data} */ (one.defaults ?? {}).lr) || "?";
  return `${text(one.class)}${name} with ${int(Number(one.parameters))} parameters, lr ${lr}`;
}

/** @param {unknown} git */
function commitText(git) {
  const { commit, dirty } = /** @type {Data} */ (git ?? {});
  return (
    text(commit) && `commit ${text(commit).slice(0, 12)}${dirty === true ? ", uncommitted changes" : ""}`
  );
}

/** Fields that the hook adds, and that the list of checkpoints shows. */
const CHECKPOINT_FIELDS = ["complete", "size", "holds", "by", "took_s", "escaped", "cut"];

/** @type {Record<string, Telling>} */
const TEXTS = {
  attached: ({ optimizers, scalers, torch, signals }) =>
    line(
      objects(optimizers).map(optimizerText).join("; ") || "no optimizer yet",
      objects(scalers).length ? counted(objects(scalers).length, "scaler") : "",
      text(torch) && `torch ${text(torch)}`,
      Object.entries(/** @type {Data} */ (signals ?? {}))
        .filter(([, state]) => state !== "ok")
        .map(([name, state]) => `${name} ${text(state)}`)
        .join(", "),
    ),
  preflight: ({ checks, findings, took_ms }) =>
    line(
      `${counted(objects(findings).length, "finding")} in ${counted(lengthOf(checks), "check")}` +
        (typeof took_ms === "number" ? `, took ${num(took_ms, 3)} ms` : ""),
      objects(findings)
        .map((one) => `${text(one.severity)} ${text(one.check)}: ${text(one.subject)}`)
        .join("; "),
    ),
  scaler: ({ change, from, to, scaler }) =>
    line(`${text(change)} ${number(from)} → ${number(to)}`, text(scaler)),
  "grad-norm-source": ({ source, clip, series, scaled, taken }) =>
    line(
      `${SOURCES.get(text(source)) ?? text(source)}${typeof clip === "number" ? ` at ${num(clip)}` : ""}`,
      MEASURED.get(text(taken)) ?? "",
      text(series),
      scaled === true ? "clipped before unscaling" : "",
    ),
  accumulation: ({ count, loss, why, series }) =>
    !text(loss)
      ? ""
      : line(
          `loss is the ${text(loss)} of ${number(count)} losses per step`,
          PARTS.get(text(why)) ?? text(why),
          text(series),
        ),
  "start-step": ({ step, approximate }) =>
    `continues at step ${number(step)}${approximate === true ? ", according to the optimizer's state" : ""}`,
  environment: ({ git, command, config, versions, packages, variables, gpus, driver, data, summary }) =>
    line(
      commitText(git),
      Array.isArray(command) ? command.map(String).join(" ") : "",
      config ? `config of ${counted(flatten(config).length, "setting")}` : "",
      versions ? rest(/** @type {Data} */ (versions), []) : "",
      packages ? counted(Object.keys(packages).length, "package") : "",
      variables ? rest(/** @type {Data} */ (variables), []) : "",
      objects(gpus)
        .map((one) => (Number(one.count) > 1 ? `${number(one.count)} x ${text(one.name)}` : text(one.name)))
        .join(", "),
      text(driver) && `driver ${text(driver)}`,
      data ? rest(/** @type {Data} */ (data), []) : "",
      summary ? rest(/** @type {Data} */ (summary), []) : "",
    ),
  alert: ({ title, text: details, severity, resolved }) =>
    line(resolved === true ? "resolved" : text(severity), text(title), text(details)),
  schedule: ({ scheduler, optimizer }) => line(text(scheduler), text(optimizer)),
  phase: (data) =>
    line(text(data.name), text(data.state) && `${text(data.state)}s`, rest(data, ["name", "state"])),
  checkpoint: (data) =>
    line(
      text(data.path),
      data.complete === false ? "incomplete" : "",
      typeof data.size === "number" ? bytes(data.size) : "",
      rest(data, [...(typeof data.path === "string" ? ["path"] : []), ...CHECKPOINT_FIELDS]),
    ),
  "checkpoint-removed": (data) => text(data.path) && `${text(data.path)} was deleted`,
  "checkpoint-moved": (data) => text(data.path) && `${text(data.from)} → ${text(data.path)}`,
  "nonfinite-input": ({ inputs }) =>
    objects(inputs)
      .map(
        (one) =>
          `${text(one.name)}: ${number(one.nan)} NaN, ${number(one.pinf)} +Inf, ` +
          `${number(one.ninf)} −Inf of ${number(one.of)}`,
      )
      .join("; "),
  dropped: ({ records, events, first_step, last_step, reason }) =>
    line(
      [records ? counted(Number(records), "record") : "", events ? counted(Number(events), "event") : ""]
        .filter(Boolean)
        .join(" and "),
      typeof first_step === "number" && typeof last_step === "number"
        ? `steps ${int(first_step)} to ${int(last_step)}`
        : "",
      text(reason),
    ),
  "gpu-throttle": ({ gpu, reasons }) => {
    const why = Array.isArray(reasons) ? reasons.map(String).join(", ") : "";
    return `GPU ${number(gpu)}: ${why || "no longer throttled"}`;
  },
};

/**
 * @param {{ kind: string, data: Data }} event
 * @returns {string}
 */
export function eventText({ kind, data }) {
  const own = Object.hasOwn(TEXTS, kind) ? TEXTS[kind](data) : "";
  return (
    own ||
    flatten(data)
      .map(([key, value]) => `${key} ${value}`)
      .join(" · ") ||
    "–"
  );
}
