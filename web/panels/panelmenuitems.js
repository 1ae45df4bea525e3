/**
 * What is in the menu of a chart: axis, order, size, data as a file. Loaded when such a menu is first opened.
 *
 * Data: the page answers through PanelHost. Draws: components/menu.js.
 */

import { blobOf, fileName, hand, handBlob } from "../browser/download.js";
import { field, formDialog } from "../components/form.js";
import { textInput } from "../components/inputs.js";
import { customName, customOf } from "../lib/charts/customchart.js";
import { givenTitle } from "../lib/charts/sections.js";
import { short } from "../lib/format.js";
import { heightWithin, resized } from "../lib/views/sizes.js";
import { typedLimits, withValue } from "../lib/views/scales.js";
import { CustomPanel } from "./custom.js";
import { isMetric } from "./metric.js";

/**
 * @typedef {import("./panelmenu.js").AnyPanel} AnyPanel
 * @typedef {import("./panelmenu.js").PanelHost} PanelHost
 * @typedef {import("./panelmenu.js").Sizes} Sizes
 */

const AXES = /** @type {const} */ ([
  ["auto", "Auto"],
  ["linear", "Linear"],
  ["log", "Log (powers of ten)"],
  ["log2", "Log (powers of two)"],
]);

/** Why a chart can't be embedded. */
const NOTHING = "nothing to show";

/**
 * @param {PanelHost} host
 * @param {AnyPanel} panel
 * @returns {import("../components/menu.js").Item[]}
 */
export function menuItems(host, panel) {
  if ("free" in panel) return freeItems(host, panel);
  const { name, drawing } = panel.kind;
  const { axes } = host.scales();
  const now = axes[name] ?? drawing.axis;
  const full = host.full() === name;
  return [
    { head: "Value axis" },
    ...AXES.map(([kind, text]) => ({
      text,
      on: now === kind,
      act: () => host.setScales({ axes: withValue(axes, name, kind === drawing.axis ? null : kind) }),
    })),
    ...scaling(host, panel),
    { head: "Chart" },
    {
      text: full ? "Leave full screen" : "Full screen",
      hint: full ? "Esc" : "",
      act: () => host.setFull(full ? null : name),
    },
    ...(customOf(name) ? composed(host, name) : isMetric(name) && !host.drop ? place(host, name) : []),
    ...one(host.drop, "Remove", name),
    ...ofSeries(host, panel),
    { head: "Download" },
    { text: "PNG", act: () => void image(host, panel, "png") },
    { text: "SVG", act: () => void image(host, panel, "svg") },
    ...one(
      host.csv && ((/** @type {string} */ each) => hand(String(host.csv?.(each)))),
      "CSV of all records in the window",
      name,
    ),
  ];
}

/**
 * Of a panel that is not drawn over steps.
 *
 * @param {PanelHost} host
 * @param {import("./runpanels/index.js").FreePanel} panel
 * @returns {import("../components/menu.js").Item[]}
 */
function freeItems(host, panel) {
  const { name, title } = panel.kind;
  const { axes } = host.scales();
  const drawn = panel.axes();
  const log = drawn.flatMap((each) => (each.log ? [each.axis] : []));
  return [
    ...drawn.flatMap((axis) => [
      { head: axis.head },
      ...axis.kinds.map(([kind, text]) => ({
        text,
        on: (axes[axis.name] ?? "auto") === kind,
        act: () => host.setScales({ axes: withValue(axes, axis.name, kind === "auto" ? null : kind) }),
      })),
    ]),
    { head: "Chart" },
    ...composed(host, name),
    ...one(panel.names.length ? host.table : undefined, "Show values", name),
    ...embedding(host, title, name, log, panel.isEmpty() ? NOTHING : ""),
  ];
}

/**
 * @param {PanelHost} host
 * @param {string} title
 * @param {string} chart
 * @param {("x" | "y")[]} log its logarithmic axes
 * @param {string} why it cannot be embedded; "" if it can
 * @returns {import("../components/menu.js").Item[]}
 */
const embedding = ({ embed }, title, chart, log, why) =>
  embed ? [{ text: "Embed…", hint: why, off: Boolean(why), act: () => embed(title, chart, log) }] : [];

/**
 * What needs the records of the run.
 *
 * @param {PanelHost} host
 * @param {import("./panel.js").Panel} panel
 */
const ofSeries = (host, panel) => {
  const { name, title } = panel.kind;
  const why = panel instanceof CustomPanel && !panel.resolved.lines.length ? NOTHING : "";
  return [
    ...one(host.table, "Show values", name),
    ...one(customOf(name) ? undefined : host.rule, "New alert rule…", name),
    ...embedding(host, title, embedded(panel), panel.log ? ["y"] : [], why),
  ];
};

/**
 * Return the chart that a link shows: of a pattern, the metrics that match it now.
 *
 * @param {import("./panel.js").Panel} panel
 */
function embedded(panel) {
  const lines = panel instanceof CustomPanel ? panel.resolved.lines : [];
  return lines.some(({ series }) => series)
    ? customName("list", lines.map(({ series }) => series).join("\n"))
    : panel.kind.name;
}

/**
 * @param {PanelHost} host
 * @param {import("./panel.js").Panel} panel
 * @returns {import("../components/menu.js").Item[]}
 */
function scaling(host, panel) {
  const { name } = panel.kind;
  const { clip, limits } = host.scales();
  const ignored = clip.includes(name);
  const own = limits[name];
  return [
    {
      text: "Ignore outliers",
      on: ignored,
      alone: true,
      act: () => host.setScales({ clip: ignored ? clip.filter((each) => each !== name) : [...clip, name] }),
    },
    {
      text: "Limits…",
      hint: own ? own.map((end) => (end === null ? "auto" : short(end, 3))).join(" to ") : "",
      act: () => askLimits(host, panel),
    },
    ...one(own && (() => host.setScales({ limits: withValue(limits, name, null) })), "Reset limits", name),
  ];
}

/**
 * @param {PanelHost} host
 * @param {import("./panel.js").Panel} panel
 */
function askLimits(host, panel) {
  const { name, title } = panel.kind;
  const { limits } = host.scales();
  const [min, max] = limits[name] ?? [null, null];
  const [low, high] = [min, max].map((end) =>
    textInput(end === null ? "" : String(end), { inputmode: "text", placeholder: "automatic" }),
  );
  formDialog({
    title: `Limits of ${title}`,
    fields: [field("min", "Smallest value", low), field("max", "Largest value", high)],
    submit: "Set limits",
    run: async () => {
      const typed = typedLimits(low.value, high.value, panel.log);
      host.setScales({ limits: withValue(host.scales().limits, name, typed) });
    },
  });
}

/**
 * @param {((name: string) => void) | undefined} act
 * @param {string} text
 * @param {string} name
 * @returns {import("../components/menu.js").Item[]}
 */
const one = (act, text, name) => (act ? [{ text, act: () => act(name) }] : []);

/**
 * @param {PanelHost} host
 * @param {string} name
 */
function place(host, name) {
  const pinned = host.pins().includes(name);
  return [{ text: pinned ? "Unpin" : "Pin to the top", act: () => host.pin(name) }, ...shift(host, name)];
}

/** Factor by which a menu makes a chart higher or lower, and the height of one without a size. */
const STEP = 1.5;
const USUAL = 160;

/**
 * Of charts in two columns.
 *
 * @param {PanelHost} host
 * @param {string} name
 * @returns {import("../components/menu.js").Item[]}
 */
function sized({ sizes, setSizes }, name) {
  if (!sizes || !setSizes) return [];
  const all = sizes();
  const { wide = false, height = null } = all[name] ?? {};
  const to = (/** @type {Partial<import("../lib/views/sizes.js").Size>} */ change) =>
    setSizes(resized(all, name, change));
  return [
    { text: "Both columns", on: wide, alone: true, act: () => to({ wide: !wide }) },
    { text: "Taller", act: () => to({ height: heightWithin((height ?? USUAL) * STEP) }) },
    { text: "Shorter", act: () => to({ height: heightWithin((height ?? USUAL) / STEP) }) },
    ...one(
      name in all ? () => setSizes(resized(all, name, { wide: false, height: null })) : undefined,
      "Usual size",
      name,
    ),
  ];
}

/**
 * @param {PanelHost} host
 * @param {string} name
 */
const shift = (host, name) => [
  ...sized(host, name),
  { text: "Move earlier", act: () => host.move(name, -1) },
  { text: "Move later", act: () => host.move(name, 1) },
  ...one(givenTitle(name) === undefined ? host.moveInto : undefined, "Move to section…", name),
];

/**
 * @param {PanelHost} host
 * @param {string} name
 */
const composed = (host, name) => {
  const own = givenTitle(name) === undefined;
  return [
    ...one(own ? host.edit : undefined, "Edit…", name),
    ...place(host, name),
    ...one(own ? host.remove : undefined, "Remove", name),
  ];
};

/**
 * Isolate the name, so that right-to-left text doesn't reorder what follows.
 *
 * @param {PanelHost} host
 * @param {import("./panel.js").Panel} panel
 * @param {"png" | "svg"} format
 */
async function image(host, panel, format) {
  const address = await host
    .plots()
    ?.image(panel.plot, format, `\u2068${host.run()}\u2069: ${panel.kind.title}`, host.axis());
  if (address) handBlob(blobOf(address), fileName([host.run(), panel.kind.name], format));
}
