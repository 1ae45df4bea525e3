/** The form of one route. */

import { el, focusIn, refill } from "../../browser/dom.js";
import { linesOf } from "../../lib/alerts/matchers.js";
import { EVERY, routeSentence, withOrWithout } from "../../lib/alerts/routesdoc.js";
import { durationText, secondsOf } from "../../lib/duration.js";
import { field } from "../form.js";
import { checkbox, textArea, textInput } from "../inputs.js";

/** @typedef {import("../../lib/alerts/routesdoc.js").Route} Route */
/**
 * @typedef {{ at: number, last: number, open: boolean, channels: string[], muteTimes: string[], change:
 *   (change: Partial<Route>) => void, move: (by: number) => void, remove: () => void, toggle: (open: boolean)
 *   => void }} RouteActs
 */

/**
 * A duration field. Text that cannot be parsed is sent as it is, and the server's error is shown at the
 * field.
 *
 * @param {number | null} s
 * @param {(s: number | null) => void} change
 * @param {string} empty
 */
function durationInput(s, change, empty) {
  const input = textInput(s === null ? "" : durationText(s), { placeholder: empty });
  input.addEventListener("input", () => {
    const text = input.value.trim();
    const read = text === "" ? null : secondsOf(text);
    change(text !== "" && read === null ? /** @type {any} */ (text) : read);
  });
  return input;
}

/**
 * Checkboxes for names, one of which may stand for all.
 *
 * @param {string[]} names
 * @param {string[]} chosen
 * @param {(chosen: string[]) => void} change
 * @param {string | null} every label of the box for all
 */
function boxes(names, chosen, change, every) {
  const known = [...new Set([...names, ...chosen.filter((name) => name !== EVERY)])];
  const host = el("div.row.boxes");
  let now = chosen;
  const draw = () => {
    const all = every !== null && now.includes(EVERY);
    refill(
      host,
      every === null
        ? null
        : checkbox(every, all, {
            "data-box": EVERY,
            onchange: (/** @type {Event} */ event) =>
              take(/** @type {HTMLInputElement} */ (event.target).checked ? [EVERY] : known.slice(0, 1)),
          }).node,
      ...known.map(
        (name) =>
          checkbox(names.includes(name) ? name : `${name} (deleted)`, all || now.includes(name), {
            disabled: all,
            "data-box": name,
            onchange: (/** @type {Event} */ event) =>
              take(withOrWithout(now, name, /** @type {HTMLInputElement} */ (event.target).checked)),
          }).node,
      ),
      known.length || every !== null ? null : el("span.muted", {}, "none yet"),
    );
  };
  const take = (/** @type {string[]} */ next) => {
    now = next;
    const box = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.box;
    draw();
    change(next);
    if (box) focusIn(host, `[data-box="${CSS.escape(box)}"]`);
  };
  draw();
  return host;
}

/**
 * @param {Route} route
 * @param {RouteActs} acts
 * @returns {{ node: HTMLElement, fields: import("../form.js").Field[] }}
 */
export function routeCard(route, acts) {
  const { at, open } = acts;
  const where = `routes[${at}]`;
  const fields = open ? routeFields(route, acts, where) : [];
  const node = el(
    "article.card.routecard",
    {
      "data-route": at,
      class: route.enabled ? "" : "done",
      "aria-label": `Route ${at + 1}: ${route.name}`,
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        const by = event.altKey ? { ArrowUp: -1, ArrowDown: 1 }[event.key] : undefined;
        if (by) {
          event.preventDefault();
          acts.move(by);
        }
      },
    },
    routeHead(route, acts),
    open
      ? el("div.routefields", {}, ...fields.map((each) => each.node))
      : el("p.soft.routesentence", {}, routeSentence(route, durationText)),
  );
  return { node, fields };
}

/**
 * @param {Route} route
 * @param {RouteActs} acts
 */
function routeHead(route, { at, last, open, move, remove, toggle }) {
  const mover = (/** @type {-1 | 1} */ by, /** @type {"up" | "down"} */ way, /** @type {string} */ title) =>
    el(
      "button.btn.bare",
      {
        type: "button",
        "data-focus": `${way}-${at}`,
        "aria-label": `Move ${route.name} ${way}`,
        title,
        disabled: at === (by < 0 ? 0 : last),
        onclick: () => move(by),
      },
      by < 0 ? "↑" : "↓",
    );
  return el(
    "header.row",
    {},
    el(
      "button.linkish.routename",
      {
        type: "button",
        "aria-expanded": String(open),
        "data-focus": `open-${at}`,
        onclick: () => toggle(!open),
      },
      el("span.arrow", { "aria-hidden": "true" }, open ? "▾" : "▸"),
      ` ${at + 1}. `,
      el("b", {}, route.name || "unnamed"),
    ),
    route.enabled ? null : el("span.chip", {}, "off"),
    el("span.grow"),
    mover(-1, "up", "Earlier (Alt ↑)"),
    mover(1, "down", "Later (Alt ↓)"),
    el(
      "button.btn.bare",
      { type: "button", "aria-label": `Remove ${route.name}`, onclick: remove },
      "Remove",
    ),
  );
}

/**
 * @param {Route} route
 * @param {RouteActs} acts
 * @param {string} where
 */
function routeFields(route, { change, channels, muteTimes }, where) {
  const text = (/** @type {string} */ value, /** @type {(text: string) => void} */ take) => {
    const input = textInput(value);
    input.addEventListener("input", () => take(input.value.trim()));
    return input;
  };
  const matchers = textArea(route.matchers.join("\n"), {
    rows: Math.max(2, route.matchers.length),
    class: "mono",
  });
  matchers.addEventListener("input", () => change({ matchers: linesOf(matchers.value) }));
  const fields = [
    field(
      `${where}.name`,
      "Name",
      text(route.name, (name) => change({ name })),
    ),
    field(`${where}.matchers`, "Matchers (one per line, all must match)", matchers, "Empty: all alerts"),
    field(
      `${where}.channels`,
      "Channels",
      boxes(channels, route.channels, (chosen) => change({ channels: chosen }), "all channels"),
    ),
    field(
      `${where}.group_by`,
      "Group by",
      text(route.group_by.join(", "), (list) =>
        change({
          group_by: list
            .split(",")
            .map((each) => each.trim())
            .filter(Boolean),
        }),
      ),
      "rule, severity, project, run, run_id, incident, subject, host, tags; empty: one group",
    ),
    ...waitFields(route, change, where),
    field(
      `${where}.mute_times`,
      "Muted during",
      boxes(muteTimes, route.mute_times, (chosen) => change({ mute_times: chosen }), null),
      "Mute times are defined below",
    ),
    optionsField(route, change, where),
  ];
  for (const at of [0, 1, 2, 8]) fields[at].node.classList.add("across");
  return fields;
}

/**
 * @param {Route} route
 * @param {RouteActs["change"]} change
 * @param {string} where
 */
function waitFields(route, change, where) {
  return [
    field(
      `${where}.group_wait_s`,
      "Group wait",
      durationInput(route.group_wait_s, (s) => change({ group_wait_s: s }), "0.3 s if critical, else 30 s"),
    ),
    field(
      `${where}.group_interval_s`,
      "Group interval",
      durationInput(route.group_interval_s, (s) => change({ group_interval_s: s ?? 60 }), "1 min"),
    ),
    field(
      `${where}.repeat_interval_s`,
      "Repeat interval",
      durationInput(route.repeat_interval_s, (s) => change({ repeat_interval_s: s ?? 14_400 }), "4 h"),
    ),
  ];
}

/**
 * @param {Route} route
 * @param {RouteActs["change"]} change
 * @param {string} where
 */
function optionsField(route, change, where) {
  const flag = (
    /** @type {"continue" | "enabled" | "send_resolved"} */ name,
    /** @type {string} */ words,
  ) => {
    const box = checkbox(words, route[name]);
    box.input.addEventListener("change", () => change({ [name]: box.input.checked }));
    return box.node;
  };
  return field(
    `${where}.continue`,
    "Options",
    el(
      "div.row.boxes",
      {},
      flag("continue", "continue to later routes"),
      flag("send_resolved", "notify when resolved"),
      flag("enabled", "enabled"),
    ),
  );
}
