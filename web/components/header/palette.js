/** The dialogs of Ctrl K, which finds pages, runs and commands, and of ?, the list of keyboard shortcuts. */

import { el, refill, say } from "../../browser/dom.js";
import { go } from "../../browser/navigate.js";
import { nextTheme, theme } from "../../browser/theme.js";
import { runAddress } from "../../lib/route.js";
import { best } from "../../lib/search.js";
import { icon } from "../icons.js";

/** @typedef {import("../../lib/search.js").Command} Command */

const MOST = 12;
/** Shortcuts by page. */
const SHORTCUTS = /** @type {const} */ ([
  [
    "Everywhere",
    [
      ["Ctrl K", "Find a page, run or command"],
      ["?", "This list"],
      ["G then F, C, A", "Fleet, Compare, Alerts"],
      ["G then R, S", "Rules, Settings"],
      ["G then L, O, H, D", "Silences, Routes, Channels, Deliveries"],
      ["T", "Theme: system, light, dark"],
      ["Esc", "Close or cancel"],
    ],
  ],
  [
    "Fleet",
    [
      ["/", "Filter"],
      ["J K", "Next and previous run"],
      ["Enter", "Open the run"],
      ["X", "Select"],
      ["P", "Pin to the top"],
      ["E", "Archive or restore"],
      ["Del", "Delete the selected runs, or this one; can be undone"],
      ["W", "Kiosk mode"],
    ],
  ],
  [
    "Run",
    [
      ["R", "Reset steps and values"],
      ["+ −", "Zoom in and out at the cross line"],
      ["F", "Follow the newest steps"],
      ["← →", "Move the cross line (charts focused); with Shift by one step"],
      ["Click, then wheel; or Ctrl and wheel", "Zoom the steps; on the value axis, the values"],
      ["Double click", "Reset the chart"],
    ],
  ],
  [
    "Alerts",
    [
      ["J K, ↓ ↑", "Next and previous incident"],
      ["Enter", "Into the diagnosis; Esc: back to the list"],
      ["O", "Open the run at the onset"],
      ["A", "Acknowledge with a note, or unacknowledge"],
      ["S", "Silence"],
      ["X", "Select several, for A and S"],
      ["H", "History of the alert"],
      ["/", "Filter"],
    ],
  ],
  [
    "Routes",
    [
      ["Alt ↑ ↓", "Move the focused route"],
      ["Ctrl S", "Save"],
    ],
  ],
  [
    "Compare",
    [
      ["D", "Difference to the baseline"],
      ["R", "Reset steps and values"],
      ["+ −", "Zoom in and out at the cross line"],
      ["Click, then wheel; or Ctrl and wheel", "Zoom the x axis; on the value axis, the values"],
    ],
  ],
]);

/** @returns {Command[]} */
function commands() {
  const page = (/** @type {string} */ text, /** @type {string} */ address, /** @type {string} */ keys) => ({
    text,
    note: "page",
    keys,
    act: () => go(address),
  });
  return [
    page("Fleet", "/", "G F"),
    page("Compare", "/compare", "G C"),
    page("Alerts", "/alerts", "G A"),
    page("Rules", "/rules", "G R"),
    page("Silences", "/silences", "G L"),
    page("Routes", "/routes", "G O"),
    page("Channels", "/channels", "G H"),
    page("Deliveries", "/deliveries", "G D"),
    page("Settings", "/settings", "G S"),
    { text: "Failed deliveries", note: "page", act: () => go("/deliveries?state=failed") },
    { text: "New silence", note: "page", act: () => go("/silences?new=1") },
    { text: "Fleet: archived runs", note: "page", act: () => go("/?archived=1") },
    { text: "Fleet: kiosk mode", note: "page", act: () => go("/?kiosk=1") },
    {
      text: "Theme: next",
      note: `now ${theme()}`,
      keys: "T",
      act: () => {
        nextTheme();
        dispatchEvent(new Event("themechosen"));
      },
    },
    { text: "Keyboard shortcuts", note: "help", keys: "?", act: showShortcuts },
    {
      text: "Copy the address of this view",
      note: "share",
      act: () => void navigator.clipboard?.writeText(location.href),
    },
    { text: "Print this page", note: "", act: () => print() },
  ];
}

/**
 * @param {App} app
 * @param {string} [typed]
 */
export async function openPalette(app, typed = "") {
  if (document.querySelector("dialog[open]")) return;
  const input = /** @type {HTMLInputElement} */ (
    el("input", {
      role: "combobox",
      "aria-expanded": "true",
      "aria-controls": "palette-list",
      "aria-label": "Find a page, a run or a command",
      placeholder: "run, page or command",
      spellcheck: "false",
      autocomplete: "off",
    })
  );
  const list = el("div", { role: "listbox", id: "palette-list", "aria-label": "Results" });
  const missing = el("p.muted.pad", { role: "status", hidden: true });
  const dialog = /** @type {HTMLDialogElement} */ (
    el(
      "dialog.card.palette",
      { "aria-label": "Find" },
      el("label.field", {}, icon("search"), input),
      list,
      missing,
    )
  );
  let all = commands();
  let shown = /** @type {Command[]} */ ([]);
  let chosen = 0;
  const take = (/** @type {number} */ i) => {
    const command = shown[i];
    dialog.close();
    command?.act();
  };
  const mark = () => {
    [...list.children].forEach((node, i) => node.setAttribute("aria-selected", String(i === chosen)));
    input.setAttribute("aria-activedescendant", `palette-${chosen}`);
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const draw = () => {
    shown = best(input.value, all, MOST);
    chosen = 0;
    refill(list, ...shown.map((command, i) => option(command, i, () => take(i))));
    if (!shown.length) list.append(el("p.muted.pad", {}, "No results."));
    mark();
  };
  input.addEventListener("input", draw);
  input.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && shown.length) {
      chosen = (chosen + by + shown.length) % shown.length;
      mark();
      event.preventDefault();
    }
    if (event.key === "Enter") {
      event.preventDefault();
      take(chosen);
    }
  });
  shut(dialog);
  input.value = typed;
  draw();
  try {
    const runs = await runCommands(app);
    all = [...all, ...runs];
    if (runs.length && dialog.open && input.value) draw();
  } catch (error) {
    missing.hidden = false;
    say(missing, `${/** @type {Error} */ (error).message} Runs cannot be found now.`);
  }
}

/**
 * @param {Command} command
 * @param {number} i
 * @param {() => void} take
 */
function option(command, i, take) {
  return el(
    "div.found",
    { role: "option", id: `palette-${i}`, onclick: take },
    el("span.clip", {}, command.text),
    el("span.micro.clip.grow", {}, command.note),
    command.keys ? el("kbd", {}, command.keys) : null,
  );
}

/**
 * One command per run.
 *
 * @param {App} app
 * @returns {Promise<Command[]>}
 */
async function runCommands(app) {
  const { items } = await app.api.allRuns();
  return items.map((row) => ({
    text: row.name,
    note: `${row.project} · ${row.state}${row.archived ? " · archived" : ""}`,
    act: () => go(runAddress(row.id)),
  }));
}

/**
 * Show a dialog that is removed when closed; a click outside closes it.
 *
 * @param {HTMLDialogElement} dialog
 */
function shut(dialog) {
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
}

export function showShortcuts() {
  if (document.querySelector("dialog[open]")) return;
  const close = el("button.btn", { type: "button", onclick: () => dialog.close() }, "Close");
  const part = (/** @type {typeof SHORTCUTS[number]} */ [title, keys]) =>
    el(
      "section",
      {},
      el("h3", {}, title),
      el(
        "dl.keylist",
        {},
        ...keys.map(([key, text]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, text))),
      ),
    );
  const dialog = /** @type {HTMLDialogElement} */ (
    el(
      "dialog.card.shortcuts",
      { "aria-label": "Keyboard shortcuts" },
      el("div.bar", {}, el("h2", {}, "Keyboard"), el("span.grow"), close),
      el("div.keyparts", {}, ...SHORTCUTS.map(part)),
    )
  );
  shut(dialog);
}
