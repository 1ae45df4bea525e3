/**
 * Routes, mute times and inhibitions: one document, edited as a draft, tested on open alerts and saved as a
 * whole.
 *
 * Data: data/alertingapi.js. State: the draft in memory, changed by lib/alerts/routesdoc.js. View:
 * components/alerts/routecard.js and components/alerts/mutecard.js beside components/alerts/routetest.js.
 */

import { el, focusIn, refill, say } from "../browser/dom.js";
import { inhibitionCard, muteCard, zoneList } from "../components/alerts/mutecard.js";
import { routeCard } from "../components/alerts/routecard.js";
import { RouteTest } from "../components/alerts/routetest.js";
import { subnav } from "../components/alerts/subnav.js";
import { announce } from "../components/announce.js";
import { complain, failed, scopeNote } from "../components/form.js";
import { icon } from "../components/icons.js";
import { showUndo } from "../components/undo.js";
import {
  added,
  changed,
  newInhibition,
  newMuteTime,
  newRoute,
  removed,
  renamedMuteTime,
  reordered,
} from "../lib/alerts/routesdoc.js";

/** @typedef {import("../lib/alerts/routesdoc.js").Routing} Routing */

/**
 * Unsaved edits survive a visit to another page.
 *
 * @type {{ doc: Routing, saved: string } | null}
 */
let kept = null;

class Routes {
  /** @type {Routing | null} */
  #doc = null;
  /** The saved document, as text. */
  #saved = "";
  /** @type {string[]} names of channels */
  #channels = [];
  #open = new Set([0]);
  /** @type {import("../components/form.js").Field[]} */
  #fields = [];
  #busy = false;

  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.routes = el("div.routelist");
    this.mutes = el("div.routelist");
    this.inhibitions = el("div.routelist");
    this.rest = el("p.fielderror", { role: "alert", hidden: true });
    this.state = el("span.soft", { role: "status" });
    this.save = /** @type {HTMLButtonElement} */ (
      el(
        "button.btn.primary",
        { type: "button", onclick: () => void this.#save() },
        "Save ",
        el("kbd.wide-only", {}, "Ctrl S"),
      )
    );
    this.discard = /** @type {HTMLButtonElement} */ (
      el("button.btn", { type: "button", onclick: () => this.#discard() }, "Discard")
    );
    this.stale = el(
      "div.notice.card.pad",
      { role: "alert", hidden: true },
      el(
        "p",
        {},
        icon("info"),
        " Someone else has saved changes in the meantime. Saving overwrites their version.",
      ),
      el(
        "button.btn.then",
        {
          type: "button",
          onclick: () => {
            kept = null;
            void this.load(true);
          },
        },
        "Use theirs",
      ),
    );
    this.problems = el("div.notice.card.pad", { role: "alert", hidden: true });
    this.test = new RouteTest(app, () => this.#doc);
    this.key = (/** @type {KeyboardEvent} */ event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
        event.preventDefault();
        void this.#save();
      }
    };
    this.leave = (/** @type {BeforeUnloadEvent} */ event) => {
      if (this.#dirty()) event.preventDefault();
    };
  }

  /** The document: routes, mute times and inhibitions. */
  #editor() {
    const add = (/** @type {string} */ text, /** @type {() => void} */ act) =>
      el("button.btn", { type: "button", onclick: act }, icon("plus"), text);
    return el(
      "div",
      {},
      this.stale,
      this.problems,
      el(
        "div.sec",
        {},
        el("h2.grow", {}, "Routes"),
        add("Add route", () => this.#add()),
      ),
      el(
        "p.soft",
        {},
        "An alert goes to the first route whose matchers all match, unless that route continues. " +
          "Alertmanager channels receive all alerts, regardless of routes.",
      ),
      this.routes,
      el(
        "div.sec",
        {},
        el("h2.grow", {}, "Mute times"),
        add("Add mute time", () =>
          this.#edit(added(this.#now, "mute_times", newMuteTime(this.#now, this.#zone()))),
        ),
      ),
      this.mutes,
      el(
        "div.sec",
        {},
        el("h2.grow", {}, "Inhibitions"),
        add("Add inhibition", () => this.#edit(added(this.#now, "inhibitions", newInhibition()))),
      ),
      this.inhibitions,
      zoneList(),
    );
  }

  open() {
    this.app.title("Routes");
    this.editor = this.#editor();
    this.host = el("div.routecols", {}, this.editor, this.test.node);
    refill(
      this.main,
      subnav(),
      el(
        "div.pagehead",
        {},
        el("h1", {}, "Routes"),
        el("span.muted", {}, "who is notified of what, and when"),
        el("span.grow"),
      ),
      scopeNote(this.app, "admin"),
      el(
        "div.savebar.card",
        { role: "region", "aria-label": "Changes" },
        this.state,
        this.rest,
        el("span.grow"),
        this.discard,
        this.save,
      ),
      this.host,
    );
    document.addEventListener("keydown", this.key);
    addEventListener("beforeunload", this.leave);
    this.stops = [
      this.app.live.onMessage("changed", ({ what }) => void this.#receive(what)),
      this.app.live.onReconnect(() => void this.load(false)),
      this.app.alerts.onChange(() => this.test.stir()),
    ];
    this.#status();
    void this.load(false);
  }

  close() {
    kept = this.#dirty() && this.#doc ? { doc: this.#doc, saved: this.#saved } : null;
    for (const stop of this.stops ?? []) stop();
    this.test.close();
    document.removeEventListener("keydown", this.key);
    removeEventListener("beforeunload", this.leave);
  }

  moved() {
    return true;
  }

  get #now() {
    return this.#doc ?? { routes: [], inhibitions: [], mute_times: [] };
  }

  #zone() {
    return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  }

  #dirty() {
    return this.#doc !== null && JSON.stringify(this.#doc) !== this.#saved;
  }

  /** @param {boolean} discard discard the edits */
  async load(discard) {
    try {
      const [doc, channels] = await Promise.all([this.app.alerting.routes(), this.app.alerting.channels()]);
      const text = JSON.stringify(doc);
      const mine = discard ? null : this.#dirty() ? { doc: this.#now, saved: this.#saved } : kept;
      this.#channels = channels.items
        .filter((channel) => channel.kind !== "alertmanager")
        .map((channel) => channel.name);
      this.stale.hidden = !mine || mine.saved === text;
      this.#doc = mine?.doc ?? doc;
      this.#saved = text;
      kept = null;
      this.#draw();
    } catch (error) {
      if (!this.#doc) failed(this.routes, error, () => void this.load(discard));
    }
  }

  /** @param {string} what */
  async #receive(what) {
    if (what === "channels" || (what === "routes" && !this.#busy)) await this.load(false);
    if (what === "silences") this.test.stir();
  }

  /**
   * @param {Routing} doc
   * @param {string} [focus] what to focus afterwards
   */
  #edit(doc, focus) {
    this.#doc = doc;
    this.#draw(focus);
  }

  /**
   * Update the draft after typing; the form stays as it is.
   *
   * @param {Routing} doc
   */
  #typed(doc) {
    this.#doc = doc;
    this.#status();
    this.test.stir();
  }

  #add() {
    this.#open = new Set([this.#now.routes.length]);
    this.#edit(added(this.#now, "routes", newRoute(this.#now)), `open-${this.#now.routes.length}`);
  }

  /**
   * @param {import("../lib/alerts/routesdoc.js").Part} part
   * @param {number} at
   * @param {string} name
   */
  #remove(part, at, name) {
    const before = this.#now;
    this.#open = new Set();
    this.#edit(removed(before, part, at));
    showUndo(`${name} removed from the draft`, () => this.#edit(before));
  }

  /**
   * @param {number} from
   * @param {number} by
   */
  #move(from, by) {
    const to = from + by;
    if (!(to in this.#now.routes)) return;
    this.#open = new Set([...this.#open].map((at) => (at === from ? to : at === to ? from : at)));
    const { name } = this.#now.routes[from];
    this.#edit(reordered(this.#now, "routes", from, to), `open-${to}`);
    announce(`${name} is now route ${to + 1} of ${this.#now.routes.length}`);
  }

  /** @param {string} [focus] */
  #draw(focus) {
    const doc = this.#now;
    const routes = this.#routeCards(doc);
    const mutes = this.#muteCards(doc);
    const rules = this.#inhibitionCards(doc);
    this.#fields = [...routes, ...mutes, ...rules].flatMap((each) => each.fields);
    this.#drawProblems(doc.problems ?? []);
    const place =
      document.activeElement instanceof HTMLElement ? document.activeElement.dataset.field : undefined;
    const top = scrollY;
    refill(
      this.routes,
      ...(routes.length
        ? routes.map((each) => each.node)
        : [el("p.soft", {}, icon("info"), " Without routes, no notifications are sent.")]),
    );
    refill(
      this.mutes,
      ...(mutes.length
        ? mutes.map((each) => each.node)
        : [el("p.muted", {}, "No mute times. A mute time defines hours in which a route sends nothing.")]),
    );
    refill(
      this.inhibitions,
      ...(rules.length
        ? rules.map((each) => each.node)
        : [el("p.muted", {}, "No inhibitions. Every alert sends its own notifications.")]),
    );
    scrollTo(scrollX, top);
    const target = focus ? `[data-focus="${focus}"]` : place ? `[data-field="${CSS.escape(place)}"]` : "";
    if (target) focusIn(this.main, target);
    this.#status();
    this.test.stir();
  }

  /** @param {Routing} doc */
  #routeCards(doc) {
    const last = doc.routes.length - 1;
    return doc.routes.map((route, at) =>
      routeCard(route, {
        at,
        last,
        open: this.#open.has(at),
        channels: this.#channels,
        muteTimes: doc.mute_times.map((each) => each.name),
        change: (change) => this.#typed(changed(this.#now, "routes", at, change)),
        move: (by) => this.#move(at, by),
        remove: () => this.#remove("routes", at, route.name),
        toggle: (open) => {
          if (open) this.#open.add(at);
          else this.#open.delete(at);
          this.#draw(`open-${at}`);
        },
      }),
    );
  }

  /** @param {Routing} doc */
  #muteCards(doc) {
    return doc.mute_times.map((mute, at) =>
      muteCard(mute, at, {
        now: () => this.#now.mute_times[at],
        change: (change) => this.#typed(changed(this.#now, "mute_times", at, change)),
        shape: (change) => this.#edit(changed(this.#now, "mute_times", at, change)),
        rename: (name) => this.#typed(renamedMuteTime(this.#now, at, name)),
        renamed: () => this.#draw(),
        remove: () => this.#remove("mute_times", at, mute.name),
      }),
    );
  }

  /** @param {Routing} doc */
  #inhibitionCards(doc) {
    return doc.inhibitions.map((rule, at) =>
      inhibitionCard(rule, at, {
        change: (change) => this.#typed(changed(this.#now, "inhibitions", at, change)),
        remove: () => this.#remove("inhibitions", at, `Inhibition ${at + 1}`),
      }),
    );
  }

  /** @param {NonNullable<Routing["problems"]>} problems stored parts that cannot be read */
  #drawProblems(problems) {
    this.problems.hidden = !problems.length;
    refill(
      this.problems,
      el(
        "p",
        {},
        icon("warning"),
        " These parts cannot be read and are ignored. Correct or remove them, then save.",
      ),
      ...problems.map((each) =>
        el("p.soft", {}, el("code", {}, each.subject), `: expected ${each.expected}`),
      ),
      problems.some((each) => each.subject.startsWith("routes"))
        ? el(
            "p.soft",
            {},
            "Until then, warnings and critical alerts that match no other route go to every channel.",
          )
        : null,
    );
  }

  #status() {
    const dirty = this.#dirty();
    this.save.disabled = !dirty || this.#busy;
    this.discard.disabled = !dirty;
    say(this.state, this.#doc === null ? "–" : dirty ? "Unsaved changes" : "All changes saved");
    if (!dirty) {
      this.rest.hidden = true;
    }
  }

  #discard() {
    const mine = this.#now;
    kept = null;
    this.#edit(JSON.parse(this.#saved));
    this.stale.hidden = true;
    showUndo("Changes discarded", () => this.#edit(mine));
  }

  async #save() {
    if (this.#busy) return;
    if (!this.#doc || !this.#dirty()) return;
    this.#busy = true;
    this.#status();
    try {
      const doc = await this.app.alerting.putRoutes(this.#doc);
      this.#doc = doc;
      this.#saved = JSON.stringify(doc);
      this.stale.hidden = true;
      complain(this.#fields, this.rest, null);
      this.#draw();
      showUndo("Routes saved", null);
    } catch (error) {
      this.#blame(error);
    } finally {
      this.#busy = false;
      this.#status();
    }
  }

  /**
   * Open the route with the error, so that its field can show it.
   *
   * @param {unknown} error
   */
  #blame(error) {
    const subject = String(/** @type {{ problem?: { subject?: unknown } }} */ (error).problem?.subject ?? "");
    const at = /^routes\[(\d+)\]/.exec(subject);
    if (at && !this.#open.has(Number(at[1]))) {
      this.#open.add(Number(at[1]));
      this.#draw();
    }
    complain(this.#fields, this.rest, error);
  }
}

/** @type {OpenPage} */
export function routesPage(app, main) {
  const page = new Routes(app, main);
  page.open();
  return page;
}
