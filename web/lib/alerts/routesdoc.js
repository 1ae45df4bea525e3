/** Editing the routing document: every change returns a new document, so that changes can be undone. */

/**
 * @typedef {{ name: string, matchers: string[], channels: string[], continue: boolean, enabled: boolean,
 *   group_by: string[], group_wait_s: number | null, group_interval_s: number, repeat_interval_s: number,
 *   send_resolved: boolean, mute_times: string[] }} Route
 */
/** @typedef {{ days: string[], from: string, to: string }} Stretch */
/** @typedef {{ name: string, zone: string, times: Stretch[] }} MuteTime */
/** @typedef {{ source: string[], target: string[], equal: string[] }} Inhibition */
/**
 * @typedef {{ subject: string, expected: string, got: unknown }} RoutingProblem a stored part that cannot be
 *   read
 */
/**
 * @typedef {{ routes: Route[], inhibitions: Inhibition[], mute_times: MuteTime[], problems?: RoutingProblem[]
 *   }} Routing
 */
/** @typedef {"routes" | "inhibitions" | "mute_times"} Part */

export const DAYS = /** @type {const} */ ([
  "monday",
  "tuesday",
  "wednesday",
  "thursday",
  "friday",
  "saturday",
  "sunday",
]);
export const EVERY = "*";

/**
 * @param {string} wanted
 * @param {string[]} taken
 */
export function freeName(wanted, taken) {
  if (!taken.includes(wanted)) return wanted;
  for (let n = 2; ; n++) if (!taken.includes(`${wanted} ${n}`)) return `${wanted} ${n}`;
}

/**
 * @param {Routing} doc
 * @returns {Route} with the server's defaults
 */
export const newRoute = (doc) => ({
  name: freeName(
    "new route",
    doc.routes.map(({ name }) => name),
  ),
  matchers: ['severity="critical"'],
  channels: [EVERY],
  continue: false,
  enabled: true,
  group_by: ["project", "incident"],
  group_wait_s: null,
  group_interval_s: 60,
  repeat_interval_s: 14_400,
  send_resolved: true,
  mute_times: [],
});
/**
 * @param {Routing} doc
 * @param {string} zone
 * @returns {MuteTime}
 */
export const newMuteTime = (doc, zone) => ({
  name: freeName(
    "nights",
    doc.mute_times.map(({ name }) => name),
  ),
  zone,
  times: [{ days: [...DAYS], from: "22:00", to: "07:00" }],
});
/** @returns {Inhibition} */
export const newInhibition = () => ({
  source: ['rule="nonfinite-loss"'],
  target: ['rule="loss-spike"'],
  equal: ["run_id"],
});

/**
 * @template T
 * @param {readonly T[]} list
 * @param {number} from
 * @param {number} to
 * @returns {T[]} unchanged if there is no such place
 */
export function moved(list, from, to) {
  if (!(from in list) || !(to in list)) return [...list];
  const out = [...list];
  const [item] = out.splice(from, 1);
  out.splice(to, 0, item);
  return out;
}

/**
 * @param {Routing} doc
 * @param {Part} part
 * @param {number} at
 * @param {object} change
 * @returns {Routing}
 */
export const changed = (doc, part, at, change) => ({
  ...doc,
  [part]: doc[part].map((item, i) => (i === at ? { ...item, ...change } : item)),
});
/**
 * @param {Routing} doc
 * @param {Part} part
 * @param {object} item
 * @returns {Routing}
 */
export const added = (doc, part, item) => ({ ...doc, [part]: [...doc[part], item] });
/**
 * @param {Routing} doc
 * @param {Part} part
 * @param {number} at
 * @returns {Routing}
 */
export const removed = (doc, part, at) => ({ ...doc, [part]: doc[part].filter((_, i) => i !== at) });
/**
 * @param {Routing} doc
 * @param {Part} part
 * @param {number} from
 * @param {number} to
 * @returns {Routing}
 */
export const reordered = (doc, part, from, to) => ({
  ...doc,
  [part]: moved(/** @type {object[]} */ (doc[part]), from, to),
});

/**
 * Rename a mute time, also in the routes that use it.
 *
 * @param {Routing} doc
 * @param {number} at
 * @param {string} name
 * @returns {Routing}
 */
export function renamedMuteTime(doc, at, name) {
  const old = doc.mute_times[at].name;
  const next = changed(doc, "mute_times", at, { name });
  return {
    ...next,
    routes: next.routes.map((route) => ({
      ...route,
      mute_times: route.mute_times.map((each) => (each === old ? name : each)),
    })),
  };
}

/**
 * @template T
 * @param {readonly T[]} list
 * @param {T} item
 * @param {boolean} on
 * @returns {T[]}
 */
export const withOrWithout = (list, item, on) =>
  on ? (list.includes(item) ? [...list] : [...list, item]) : list.filter((each) => each !== item);

/**
 * Describe a route in one line.
 *
 * @param {Route} route
 * @param {(s: number) => string} lasts
 */
export function routeSentence(route, lasts) {
  const who = route.matchers.length ? route.matchers.join(" and ") : "every alert";
  const where = route.channels.includes(EVERY) ? "every channel" : route.channels.join(", ") || "no channel";
  const again = `repeats every ${lasts(route.repeat_interval_s)}`;
  const mute = route.mute_times.length ? `, muted during ${route.mute_times.join(", ")}` : "";
  return `${who} → ${where}, ${again}${mute}${route.continue ? ", then continues to the next" : ""}`;
}
