/** Mute times and inhibitions of the routing document. */

import { el } from "../../browser/dom.js";
import { linesOf } from "../../lib/alerts/matchers.js";
import { DAYS, withOrWithout } from "../../lib/alerts/routesdoc.js";
import { field } from "../form.js";
import { checkbox, textArea, textInput } from "../inputs.js";

/**
 * @typedef {import("../../lib/alerts/routesdoc.js").MuteTime} MuteTime
 * @typedef {import("../../lib/alerts/routesdoc.js").Inhibition} Inhibition
 * @typedef {import("../../lib/alerts/routesdoc.js").Stretch} Stretch
 */
/** @typedef {import("../form.js").Field} Field */

/** Names of time zones for completion, from the browser. */
export function zoneList() {
  const zones =
    "supportedValuesOf" in Intl ? /** @type {any} */ (Intl).supportedValuesOf("timeZone") : ["UTC"];
  return el(
    "datalist",
    { id: "zones" },
    ...["UTC", ...zones].map((/** @type {string} */ zone) => el("option", { value: zone })),
  );
}

/**
 * Handlers of a mute time's fields. `now` is the current mute time, because earlier fields may have changed
 * it.
 *
 * @typedef {{ now: () => MuteTime, change: (change: Partial<MuteTime>) => void, shape: (change:
 *   Partial<MuteTime>) => void, rename: (name: string) => void, renamed: () => void, remove: () => void }}
 *   MuteActs change: a field's value; shape: fields are added or removed
 */

/**
 * @param {MuteTime} mute
 * @param {number} at
 * @param {MuteActs} acts
 * @returns {{ node: HTMLElement, fields: Field[] }}
 */
export function muteCard(mute, at, acts) {
  const where = `mute_times[${at}]`;
  const name = textInput(mute.name);
  const zone = textInput(mute.zone, { list: "zones" });
  name.addEventListener("input", () => acts.rename(name.value.trim()));
  name.addEventListener("change", () => acts.renamed());
  zone.addEventListener("input", () => acts.change({ zone: zone.value.trim() }));
  const stretches = mute.times.map((stretch, i) =>
    stretchFields(stretch, `${where}.times[${i}]`, {
      now: () => acts.now().times[i],
      change: (change) =>
        acts.change({ times: acts.now().times.map((each, k) => (k === i ? { ...each, ...change } : each)) }),
      remove:
        mute.times.length > 1
          ? () => acts.shape({ times: acts.now().times.filter((_, k) => k !== i) })
          : null,
    }),
  );
  const fields = [
    field(`${where}.name`, "Name", name),
    field(`${where}.zone`, "Time zone", zone, "Hours are local times, also across daylight saving changes"),
  ];
  const more = el(
    "button.btn",
    {
      type: "button",
      onclick: () =>
        acts.shape({
          times: [...acts.now().times, { days: ["saturday", "sunday"], from: "00:00", to: "24:00" }],
        }),
    },
    "Add hours",
  );
  return {
    node: card(`Mute time ${mute.name}`, mute.name, acts.remove, [
      ...fields.map((each) => each.node),
      ...stretches.map((each) => each.node),
      more,
    ]),
    fields: [...fields, ...stretches.flatMap((each) => each.fields)],
  };
}

/**
 * @param {Stretch} stretch
 * @param {string} where
 * @param {{ now: () => Stretch, change: (change: Partial<Stretch>) => void, remove: (() => void) | null }}
 *   acts
 */
function stretchFields(stretch, where, { now, change, remove }) {
  const time = (/** @type {"from" | "to"} */ key) => {
    const input = textInput(stretch[key], { placeholder: "HH:MM", maxlength: 5, size: 6 });
    input.addEventListener("input", () => change({ [key]: input.value.trim() }));
    return input;
  };
  const days = el(
    "div.row.boxes",
    {},
    ...DAYS.map((day) => {
      const box = checkbox(day.slice(0, 2), stretch.days.includes(day), { "aria-label": day, title: day });
      box.input.addEventListener("change", () =>
        change({ days: withOrWithout(now().days, day, box.input.checked) }),
      );
      return box.node;
    }),
  );
  const fields = [
    field(`${where}.days`, "Days", days),
    field(`${where}.from`, "From", time("from")),
    field(`${where}.to`, "To", time("to"), "to before from: the next day; 24:00 ends the day"),
  ];
  return {
    node: el(
      "div.stretch",
      {},
      ...fields.map((each) => each.node),
      remove
        ? el(
            "button.btn.bare",
            { type: "button", "aria-label": "Remove these hours", onclick: remove },
            "Remove",
          )
        : null,
    ),
    fields,
  };
}

/**
 * @param {Inhibition} rule
 * @param {number} at
 * @param {{ change: (change: Partial<Inhibition>) => void, remove: () => void }} acts
 * @returns {{ node: HTMLElement, fields: Field[] }}
 */
export function inhibitionCard(rule, at, acts) {
  const where = `inhibitions[${at}]`;
  const area = (/** @type {"source" | "target"} */ key) => {
    const input = textArea(rule[key].join("\n"), { rows: Math.max(1, rule[key].length), class: "mono" });
    input.addEventListener("input", () => acts.change({ [key]: linesOf(input.value) }));
    return input;
  };
  const equal = textInput(rule.equal.join(", "));
  equal.addEventListener("input", () =>
    acts.change({
      equal: equal.value
        .split(",")
        .map((each) => each.trim())
        .filter(Boolean),
    }),
  );
  const fields = [
    field(`${where}.source`, "Source matchers", area("source")),
    field(`${where}.target`, "Target matchers", area("target")),
    field(`${where}.equal`, "Equal labels", equal),
  ];
  const title = `${rule.source.join(" and ")} inhibits ${rule.target.join(" and ")}`;
  return {
    node: card(
      `Inhibition ${at + 1}`,
      title,
      acts.remove,
      fields.map((each) => each.node),
    ),
    fields,
  };
}

/**
 * @param {string} label
 * @param {string} title
 * @param {() => void} remove
 * @param {Node[]} kids
 */
const card = (label, title, remove, kids) =>
  el(
    "article.card.routecard",
    { "aria-label": label },
    el(
      "header.row",
      {},
      el("h3.grow", {}, title),
      el("button.btn.bare", { type: "button", "aria-label": `Remove ${label}`, onclick: remove }, "Remove"),
    ),
    el("div.routefields", {}, ...kids),
  );
