/**
 * The inbox: open, acknowledged, pending, silenced and closed incidents, operable by keyboard.
 *
 * Data: data/alertstore.js holds the alerts and data/markstore.js their acknowledgements and silences, both
 * shared by all pages and live. State: the address (filter and selection), read and written by
 * lib/alerts/inbox.js. View: components/alerts/inboxlist.js beside components/alerts/inboxpane.js.
 */

import { el, refill, say } from "../browser/dom.js";
import { go } from "../browser/navigate.js";
import { isPlain, isTyping } from "../browser/shortcuts.js";
import { acknowledge, unacknowledge } from "../components/alerts/ackform.js";
import { InboxBar } from "../components/alerts/inboxbar.js";
import { InboxList } from "../components/alerts/inboxlist.js";
import { InboxPane } from "../components/alerts/inboxpane.js";
import { silenceForm, silenceOf } from "../components/alerts/silenceform.js";
import { subnav } from "../components/alerts/subnav.js";
import { announce } from "../components/announce.js";
import { showUndo } from "../components/undo.js";
import { Thumbnails } from "../data/thumbnails.js";
import { isOver } from "../lib/alerts/attention.js";
import { incidentId, incidentsOf, marksOfIncident } from "../lib/alerts/incidents.js";
import {
  grouped,
  narrows,
  neighbour,
  PLAIN,
  readInbox,
  successor,
  tally,
  writeInbox,
} from "../lib/alerts/inbox.js";
import { counted, dotted, int, ruleTitle } from "../lib/format.js";
import { alertAddress } from "../lib/route.js";

/** @typedef {import("../lib/alerts/inbox.js").InboxView} InboxView */
/** @typedef {import("../lib/alerts/incidents.js").Incident} Incident */

const PAST = 500;
const AGE_MS = 1_000;
/** How often the thumbnails follow runs that go on. */
const THUMBS_MS = 15_000;
const NARROW = "(max-width: 1160px)";
/** Keys shown in the page head. */
const KEYS = [
  ["J K", "move"],
  ["A", "acknowledge"],
  ["S", "silence"],
  ["O", "open"],
  ["X", "select"],
  ["?", "all keys"],
];

class Inbox {
  /** @type {Set<string>} */
  #picked = new Set();
  /** @type {Map<string, Incident>} by id */
  #incidents = new Map();
  /** @type {Set<string>} */
  #asked = new Set();
  #frame = 0;
  /** Whether the first load is complete; before it, the top row may not be the most urgent. */
  #ready = false;
  /** @type {unknown} */
  #error = null;

  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.view = readInbox(location.search);
    this.bar = new InboxBar((change) => this.set(change));
    this.list = new InboxList({
      choose: (id) => this.#choose(id, true),
      pick: (id) => this.#pick(id),
      again: () => void this.#load(),
      showAll: () => this.set({ ...PLAIN }),
      redraw: () => this.#draw(),
      soon: () => this.#soon(),
      chosen: () => this.#chosen()?.id ?? null,
      facts: (alert) => this.#facts(alert),
    });
    this.pane = new InboxPane(app, {
      acknowledge: () => void this.#acknowledge(),
      silence: () => this.#silence(),
      back: () => this.#back(),
      choose: (id) => this.set({ alert: id }),
    });
    this.thumbs = new Thumbnails(app.api, () => this.#soon());
    this.count = el("span.muted", {}, "–");
    this.key = (/** @type {KeyboardEvent} */ event) => this.#key(event);
  }

  #page() {
    return el(
      "div",
      {},
      subnav(),
      el(
        "div.pagehead",
        {},
        el("h1", {}, "Alerts"),
        this.count,
        el("span.grow"),
        el(
          "div.keys",
          { "aria-hidden": "true" },
          ...KEYS.map(([key, text]) =>
            el("span", {}, ...key.split(" ").flatMap((each) => [el("kbd", {}, each), " "]), text),
          ),
        ),
      ),
      this.bar.node,
      el("div.inbox", {}, this.list.node, this.pane.node),
    );
  }

  open() {
    refill(this.main, this.#page());
    this.stops = [
      this.app.alerts.onChange(() => this.#soon()),
      this.app.marks.onChange(() => this.#soon()),
      this.app.live.onReconnect(() => void this.#load()),
    ];
    document.addEventListener("keydown", this.key);
    this.ticker = setInterval(() => this.#age(), AGE_MS);
    this.thumbTicker = setInterval(() => {
      if (!document.hidden) void this.thumbs.refresh();
    }, THUMBS_MS);
    this.#look();
    void this.#load();
  }

  close() {
    for (const stop of this.stops ?? []) stop();
    clearInterval(this.ticker);
    clearInterval(this.thumbTicker);
    cancelAnimationFrame(this.#frame);
    document.removeEventListener("keydown", this.key);
  }

  moved() {
    this.view = readInbox(location.search);
    this.#look();
    return true;
  }

  /** @param {Partial<InboxView>} change */
  set(change) {
    this.view = { ...this.view, ...change };
    history.replaceState(null, "", location.pathname + writeInbox(this.view));
    this.#look();
  }

  /** Load marks, and more alerts that are over than the shared store keeps; it holds all open ones. */
  async #load() {
    try {
      const { alerts, alerting, marks } = this.app;
      const asked = alerts.now();
      await Promise.all([
        alerts.loaded ? null : alerts.load(),
        alerting
          .alerts({ state: "ended,resolved", limit: PAST })
          .then(({ items }) => alerts.learn(items, asked)),
        marks.load(),
      ]);
      this.#error = null;
    } catch (error) {
      this.#error = error;
    }
    this.#ready = true;
    this.#draw();
  }

  /**
   * Load an old alert that a link names.
   *
   * @param {string} id
   */
  async #ask(id) {
    if (this.#asked.has(id)) return;
    this.#asked.add(id);
    const { alerts, alerting } = this.app;
    const asked = alerts.now();
    try {
      alerts.learn([await alerting.alert(id)], asked);
    } catch {
      /* deleted: the list shows what exists */
    }
  }

  /** Apply the view. */
  #look() {
    this.bar.show(this.view);
    this.list.release();
    this.#draw();
  }

  #soon() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  /** @param {string} id of an incident */
  #marks = (id) => {
    const incident = this.#incidents.get(id);
    return incident ? marksOfIncident(incident, (each) => this.app.marks.of(each)) : this.app.marks.of(id);
  };

  /** Return the incident that has the chosen alert. */
  #chosen() {
    const { alert } = this.view;
    return [...this.#incidents.values()].find(({ alerts }) => alerts.some(({ id }) => id === alert)) ?? null;
  }

  /**
   * @param {Incident} alert
   * @returns {import("../components/alerts/marktexts.js").RowContext}
   */
  #facts(alert) {
    const names = (/** @type {string} */ id) => {
      const other = this.app.alerts.all().find((each) => each.id === id);
      return other ? ruleTitle(other.rule) : "another alert";
    };
    return {
      marks: this.#marks(alert.id),
      silence: (id) => this.app.marks.silence(id),
      rule: names,
      now: this.app.clock.now(),
      picked: this.#picked.has(alert.id),
      spark: this.thumbs.of(alert.run_id, alert.lead.subject),
    };
  }

  #draw() {
    const all = this.app.alerts.all();
    const { view } = this;
    const me = this.app.session.name;
    const incidents = incidentsOf(all);
    this.#incidents = new Map(incidents.map((incident) => [incident.id, incident]));
    const matches = narrows(view);
    const narrow = incidents.filter(({ alerts }) => alerts.some(matches));
    if (view.alert && this.app.alerts.loaded && !all.some((alert) => alert.id === view.alert)) {
      void this.#ask(view.alert);
    }
    const groups = grouped(narrow, view, this.#marks, me);
    const ids = groups.flatMap((group) => group.items.map((alert) => alert.id));
    const chosen = this.#chosen()?.id ?? "";
    if (this.#ready && !ids.includes(chosen) && ids.length) {
      const next = this.list.order.includes(chosen) ? successor(this.list.order, ids, chosen) : ids[0];
      this.view = { ...view, alert: this.#leadOf(String(next)) };
    }
    this.#counts(all, narrow, me);
    void this.thumbs.want(groups.flatMap((group) => group.items.map((alert) => alert.run_id)));
    this.list.draw(groups, ids);
    this.list.empty(ids.length ? null : this.#whyEmpty(), this.#error);
    this.#show();
  }

  /** @param {string} id of an incident */
  #leadOf(id) {
    return this.#incidents.get(id)?.lead.id ?? id;
  }

  /**
   * @param {Alert[]} all
   * @param {Incident[]} narrow
   * @param {string} me
   */
  #counts(all, narrow, me) {
    const counts = tally(narrow, this.#marks, me);
    const taken = narrow.filter((alert) => !isOver(alert) && this.#marks(alert.id).ack).length;
    say(
      this.count,
      this.app.alerts.loaded
        ? dotted(
            counted(counts.open - counts.pending, "open incident"),
            `${int(taken)} acknowledged`,
            `${int(counts.pending)} pending`,
            `${int(counts.silenced)} silenced`,
          )
        : "–",
    );
    this.app.title("Alerts");
    this.bar.count(counts, all, this.view);
  }

  /** @returns {import("../components/alerts/inboxlist.js").WhyEmpty} */
  #whyEmpty() {
    if (this.#error) return "error";
    if (!this.app.alerts.loaded) return "loading";
    return writeInbox({ ...this.view, alert: null }) === "" ? "plain" : "filtered";
  }

  #show() {
    const incident = this.#chosen();
    if (incident) this.list.rows.setAttribute("aria-activedescendant", `al-${incident.id}`);
    else this.list.rows.removeAttribute("aria-activedescendant");
    const alert = incident?.alerts.find(({ id }) => id === this.view.alert) ?? null;
    this.pane.show(
      alert,
      incident,
      incident
        ? this.#facts(incident)
        : { marks: this.#marks(""), silence: () => null, rule: String, now: 0, picked: false },
    );
  }

  #age() {
    this.list.refresh([...this.#incidents.values()]);
    this.#show();
  }

  /**
   * @param {string} id of an incident
   * @param {boolean} [far] on a narrow screen, scroll to the pane below
   */
  #choose(id, far = false) {
    this.set({ alert: this.#leadOf(id) });
    this.list.rowOf(id)?.scrollIntoView({ block: "nearest" });
    if (far && matchMedia(NARROW).matches) this.#enter();
  }

  #enter() {
    this.pane.node.focus({ preventScroll: true });
    this.pane.node.scrollIntoView({ block: "start" });
  }

  #back() {
    this.list.rows.focus({ preventScroll: true });
    this.list.rowOf(this.#chosen()?.id ?? "")?.scrollIntoView({ block: "center" });
  }

  /** @param {string} id */
  #pick(id) {
    if (!this.#picked.delete(id)) this.#picked.add(id);
    this.#draw();
    announce(this.#picked.size ? `${counted(this.#picked.size, "incident")} selected` : "None selected");
  }

  /** @returns {Incident[]} the selected incidents, else the chosen one, without resolved ones */
  #meant() {
    const chosen = this.#chosen();
    const picked = [...this.#incidents.values()].filter(({ id }) => this.#picked.has(id));
    const meant = picked.length ? picked : chosen ? [chosen] : [];
    return meant.filter(({ state }) => state !== "resolved");
  }

  async #acknowledge() {
    const alerts = this.#meant();
    const taken = alerts.filter((alert) => this.#marks(alert.id).ack);
    if (!alerts.length) return;
    if (taken.length === alerts.length) return this.#unacknowledge(taken);
    acknowledge(
      this.app,
      alerts.filter((alert) => !taken.includes(alert)),
      (done) => {
        this.#picked.clear();
        showUndo(
          `${done.length === 1 ? ruleTitle(done[0].rule) : counted(done.length, "incident")} acknowledged`,
          () => void this.#unacknowledge(done),
        );
        this.#next(done);
      },
    );
  }

  /** @param {Alert[]} alerts */
  async #unacknowledge(alerts) {
    try {
      await unacknowledge(this.app, alerts);
      const what = alerts.length === 1 ? ruleTitle(alerts[0].rule) : counted(alerts.length, "incident");
      showUndo(`Acknowledgement of ${what} removed: reminders are on again`, null);
    } catch (error) {
      showUndo(`Acknowledgement not removed: ${/** @type {Error} */ (error).message}`, null);
    }
    this.#picked.clear();
    this.#soon();
  }

  /**
   * Continue with the next alert in the list.
   *
   * @param {Alert[]} done
   */
  #next(done) {
    const ids = new Set(done.map(incidentId));
    const chosen = this.#chosen()?.id;
    if (!chosen || !ids.has(chosen)) return;
    const at = this.list.order.indexOf(chosen);
    const rest =
      this.list.order.slice(at + 1).find((id) => !ids.has(id)) ?? this.list.order.find((id) => !ids.has(id));
    this.list.release();
    if (rest) this.#choose(rest);
  }

  #silence() {
    const [alert] = this.#meant();
    if (!alert) return;
    silenceForm(this.app, silenceOf(alert), (silence) => {
      this.#picked.clear();
      showUndo(
        `Silenced: ${silence.matchers.join(", ")}`,
        () =>
          void this.app.alerting.endSilence(silence.id).then(
            () => this.app.marks.stir(),
            () => {},
          ),
      );
    });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const typing = isTyping(event);
    if (!isPlain(event)) return;
    if (event.key === "Escape") {
      if (typing) target.blur();
      else if (this.#picked.size) {
        this.#picked.clear();
        this.#draw();
      }
      this.#back();
      return;
    }
    if (typing) return;
    const inPane = this.pane.node.contains(target);
    const arrows = !inPane || target === this.pane.node;
    const by = { j: 1, k: -1, ArrowDown: arrows ? 1 : 0, ArrowUp: arrows ? -1 : 0 }[event.key];
    if (by) {
      const next = neighbour(this.list.order, this.#chosen()?.id ?? null, by);
      if (next) this.#choose(next);
    } else if ((event.key === "Home" || event.key === "End") && target === this.list.rows) {
      this.#choose(String(event.key === "Home" ? this.list.order[0] : this.list.order.at(-1)));
    } else if (
      event.key === "Enter" &&
      (target === this.list.rows || target === document.body || target === this.main)
    ) {
      this.#enter();
    } else if (!this.#letter(event.key)) return;
    event.preventDefault();
  }

  /**
   * @param {string} key
   * @returns {boolean} whether the key was handled
   */
  #letter(key) {
    const alert = this.app.alerts.all().find((each) => each.id === this.view.alert);
    if (key === "/") this.bar.input.select();
    else if (key === "a") void this.#acknowledge();
    else if (key === "s") this.#silence();
    else if (key === "o" && alert) go(alertAddress(alert));
    else if (key === "x" && alert) this.#pick(incidentId(alert));
    else if (key === "h" && alert) this.pane.history.scrollIntoView({ block: "nearest" });
    else return false;
    return true;
  }
}

/** @type {OpenPage} */
export function alertsPage(app, main) {
  const page = new Inbox(app, main);
  page.open();
  return page;
}
