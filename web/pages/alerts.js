/**
 * The alert inbox: open, acknowledged, pending, silenced and resolved alerts, operable by keyboard. The
 * address holds filter and selection.
 */

import { el, refill, say } from "../browser/dom.js";
import { go } from "../browser/navigate.js";
import { acknowledge, unacknowledge } from "../components/alerts/ackform.js";
import { AlertRow } from "../components/alerts/alertrow.js";
import { InboxPane } from "../components/alerts/inboxpane.js";
import { silenceForm, silenceOf } from "../components/alerts/silenceform.js";
import { subnav } from "../components/alerts/subnav.js";
import { announce, failed, selectInput } from "../components/form.js";
import { icon } from "../components/icons.js";
import { showUndo } from "../components/undo.js";
import {
  grouped,
  narrows,
  neighbour,
  PLAIN,
  readInbox,
  STATES,
  successor,
  tally,
  writeInbox,
} from "../lib/alerts/inbox.js";
import { counted, dotted, int, ruleTitle } from "../lib/format.js";
import { runAddress } from "../lib/route.js";

/** @typedef {import("../lib/alerts/inbox.js").InboxView} InboxView */

const TITLES = {
  open: "Open",
  mine: "Mine",
  silenced: "Silenced",
  pending: "Pending",
  resolved: "Resolved",
  all: "All",
};
const NOTES = {
  open: "Unresolved and not silenced",
  mine: "Acknowledged by me",
  silenced: "Silenced, or muted by another alert",
  pending: "Condition met, but not yet long enough to fire",
  resolved: "No longer active",
  all: "All alerts",
};
/** Rows shown initially, and added by each click. */
const PAGE = 150;
const PAST = 500;
const AGE_MS = 1_000;
const NARROW = "(max-width: 1000px)";

class Inbox {
  /** @type {Map<string, AlertRow>} */
  #rows = new Map();
  /** @type {Map<string, HTMLElement>} heads of groups */
  #heads = new Map();
  /** @type {Set<string>} */
  #picked = new Set();
  /** @type {string[]} ids in the order shown */
  #order = [];
  /** @type {Set<string>} */
  #asked = new Set();
  #most = PAGE;
  #hovered = false;
  #frame = 0;
  #shape = "";
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
    this.pane = new InboxPane(app, {
      acknowledge: () => void this.#acknowledge(),
      silence: () => this.#silence(),
      back: () => this.#back(),
    });
    this.count = el("span.muted", {}, "–");
    this.rows = el("div.alertrows", { role: "listbox", tabindex: "0", "aria-label": "Alerts" });
    this.nothing = el("div", { hidden: true });
    this.more = el("button.btn.morerows", {
      type: "button",
      hidden: true,
      onclick: () => {
        this.#most += PAGE;
        this.#draw();
      },
    });
    this.list = el("section.card.listing", { "aria-label": "Inbox" }, this.rows, this.nothing, this.more);
    this.states = STATES.map((state) =>
      el(
        "button",
        {
          type: "button",
          "data-state": state,
          title: NOTES[state],
          onclick: () => this.set({ state, alert: null }),
        },
        `${TITLES[state]} `,
        el("b"),
      ),
    );
    this.input = /** @type {HTMLInputElement} */ (
      el("input", {
        placeholder: "rule: project: run: severity:",
        spellcheck: "false",
        "aria-label": "Filter alerts",
        oninput: () => this.set({ q: this.input.value }),
      })
    );
    this.severity = selectInput(
      [
        ["", "all severities"],
        ["critical", "critical"],
        ["warning", "warning"],
        ["info", "info"],
      ],
      "",
      { "aria-label": "Severity", onchange: () => this.set({ severity: this.severity.value }) },
    );
    this.project = selectInput([["", "all projects"]], "", {
      "aria-label": "Project",
      onchange: () => this.set({ project: this.project.value }),
    });
    this.rule = selectInput([["", "all rules"]], "", {
      "aria-label": "Rule",
      onchange: () => this.set({ rule: this.rule.value }),
    });
    this.page = this.#page();
    this.key = (/** @type {KeyboardEvent} */ event) => this.#key(event);
  }

  #page() {
    this.list.addEventListener("pointerenter", () => {
      this.#hovered = true;
    });
    this.list.addEventListener("pointerleave", () => {
      this.#hovered = false;
      this.#soon();
    });
    const keys = [
      ["J K", "move"],
      ["A", "acknowledge"],
      ["S", "silence"],
      ["O", "open"],
      ["X", "select"],
      ["?", "all keys"],
    ];
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
          ...keys.map(([key, text]) =>
            el("span", {}, ...key.split(" ").flatMap((each) => [el("kbd", {}, each), " "]), text),
          ),
        ),
      ),
      el(
        "div.bar.inboxbar",
        { role: "search" },
        el("span.seg.scrollseg", { role: "group", "aria-label": "Which alerts" }, ...this.states),
        el("label.field.query", {}, icon("search"), this.input, el("kbd.wide-only", {}, "/")),
        this.severity,
        this.project,
        this.rule,
      ),
      el("div.inbox", {}, this.list, this.pane.node),
    );
  }

  open() {
    refill(this.main, this.page);
    this.stops = [
      this.app.alerts.onChange(() => this.#soon()),
      this.app.marks.onChange(() => this.#soon()),
      this.app.live.onReconnect(() => void this.#load()),
    ];
    document.addEventListener("keydown", this.key);
    this.ticker = setInterval(() => this.#age(), AGE_MS);
    this.#look();
    void this.#load();
  }

  close() {
    for (const stop of this.stops ?? []) stop();
    clearInterval(this.ticker);
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

  /** Load marks, and more resolved alerts than the shared store keeps. It already holds all open alerts. */
  async #load() {
    try {
      const { alerts, alerting, marks } = this.app;
      await Promise.all([
        alerts.loaded ? null : alerts.load(),
        alerting.alerts({ state: "resolved", limit: PAST }).then(({ items }) => alerts.learn(items)),
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
    try {
      this.app.alerts.learn([await this.app.alerting.alert(id)]);
    } catch {
      /* deleted: the list shows what exists */
    }
  }

  #look() {
    const { view } = this;
    if (this.input.value !== view.q) this.input.value = view.q;
    this.severity.value = view.severity;
    for (const button of this.states) {
      button.setAttribute("aria-pressed", String(button.dataset.state === view.state));
    }
    this.#shape = "";
    this.#draw();
  }

  #soon() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  /** @param {string} id */
  #marks = (id) => this.app.marks.of(id);

  /**
   * @param {Alert} alert
   * @returns {import("../components/alerts/alertrow.js").RowContext}
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
    };
  }

  #draw() {
    const all = this.app.alerts.all();
    const { view } = this;
    const me = this.app.session.name;
    const narrow = all.filter(narrows(view));
    if (view.alert && this.app.alerts.loaded && !all.some((alert) => alert.id === view.alert)) {
      void this.#ask(view.alert);
    }
    const groups = grouped(narrow, view, this.#marks, me);
    const ids = groups.flatMap((group) => group.items.map((alert) => alert.id));
    if (this.#ready && !ids.includes(view.alert ?? "") && ids.length) {
      const alert =
        view.alert && this.#order.includes(view.alert) ? successor(this.#order, ids, view.alert) : ids[0];
      this.view = { ...view, alert };
    }
    this.#counts(all, narrow, me);
    this.#list(groups, ids);
    this.#show(all);
  }

  /**
   * @param {Alert[]} all
   * @param {Alert[]} narrow
   * @param {string} me
   */
  #counts(all, narrow, me) {
    const counts = tally(narrow, this.#marks, me);
    const taken = narrow.filter((alert) => alert.state !== "resolved" && this.#marks(alert.id).ack).length;
    for (const button of this.states) {
      const number = button.querySelector("b");
      if (number) say(number, int(counts[/** @type {InboxView["state"]} */ (button.dataset.state)]));
    }
    say(
      this.count,
      this.app.alerts.loaded
        ? dotted(
            counted(counts.open - counts.pending, "open alert"),
            `${int(taken)} acknowledged`,
            `${int(counts.pending)} pending`,
            `${int(counts.silenced)} silenced`,
          )
        : "–",
    );
    this.app.title("Alerts");
    this.#choices(
      this.project,
      "all projects",
      all.map((alert) => alert.project),
      this.view.project,
    );
    this.#choices(
      this.rule,
      "all rules",
      all.map((alert) => alert.rule),
      this.view.rule,
    );
  }

  /**
   * @param {HTMLSelectElement} select
   * @param {string} every
   * @param {string[]} values
   * @param {string} chosen
   */
  #choices(select, every, values, chosen) {
    const known = [...new Set([...values, ...(chosen ? [chosen] : [])])].sort();
    const key = known.join("\n");
    if (select.dataset.key !== key) {
      select.dataset.key = key;
      refill(
        select,
        el("option", { value: "" }, every),
        ...known.map((value) => el("option", { value }, value)),
      );
    }
    if (select.value !== chosen) select.value = chosen;
  }

  /**
   * Rows are reused and moved. While the pointer is over them, they keep their positions.
   *
   * @param {import("../lib/alerts/inbox.js").Group[]} groups
   * @param {string[]} ids
   */
  #list(groups, ids) {
    const cut = groups
      .map((group, i) => ({
        ...group,
        items: group.items.slice(
          0,
          Math.max(0, this.#most - groups.slice(0, i).reduce((n, each) => n + each.items.length, 0)),
        ),
      }))
      .filter((group) => group.items.length);
    const shape = JSON.stringify(cut.map((group) => [group.key, group.items.map((alert) => alert.id)]));
    if (shape !== this.#shape && !(this.#hovered && this.#shape)) {
      const anchor = this.view.alert ? this.#rows.get(this.view.alert)?.node : null;
      const was = anchor?.isConnected ? anchor.getBoundingClientRect().top : null;
      this.#shape = shape;
      this.#order = ids;
      this.#place(cut);
      if (anchor && was !== null && scrollY > 0) scrollBy(0, anchor.getBoundingClientRect().top - was);
    }
    for (const group of groups) {
      const head = this.#heads.get(group.key)?.querySelector(".muted");
      if (head) say(head, int(group.items.length));
    }
    for (const alert of groups.flatMap((group) => group.items)) {
      this.#rows.get(alert.id)?.show(alert, this.#facts(alert), alert.id === this.view.alert);
    }
    const hidden = ids.length - Math.min(ids.length, this.#most);
    this.more.hidden = !hidden;
    say(this.more, `Show ${int(Math.min(PAGE, hidden))} of ${int(hidden)} more`);
    this.#empty(ids.length);
  }

  /** @param {import("../lib/alerts/inbox.js").Group[]} groups */
  #place(groups) {
    const kept = new Set(groups.flatMap((group) => group.items.map((alert) => alert.id)));
    for (const id of [...this.#rows.keys()]) if (!kept.has(id)) this.#rows.delete(id);
    const boxes = groups.map((group) => {
      const box =
        this.#heads.get(group.key) ??
        el(
          "div",
          { role: "group", "aria-label": group.title },
          el(
            "div.grouphead",
            { role: "presentation" },
            el("span.strong", {}, group.title),
            el("span.muted"),
            el("span.micro", {}, group.note),
          ),
        );
      this.#heads.set(group.key, box);
      const rows = group.items.map((alert) => this.#row(alert.id));
      [...box.children].slice(1).forEach((node) => {
        if (!rows.includes(/** @type {HTMLElement} */ (node))) node.remove();
      });
      rows.forEach((node, i) => {
        if (box.children[i + 1] !== node) box.insertBefore(node, box.children[i + 1] ?? null);
      });
      return box;
    });
    for (const node of [...this.rows.children]) {
      if (!boxes.includes(/** @type {HTMLElement} */ (node))) node.remove();
    }
    boxes.forEach((box, i) => {
      if (this.rows.children[i] !== box) this.rows.insertBefore(box, this.rows.children[i] ?? null);
    });
    this.rows.hidden = !boxes.length;
  }

  /** @param {string} id */
  #row(id) {
    const row =
      this.#rows.get(id) ??
      new AlertRow(id, { choose: () => this.#choose(id, true), pick: () => this.#pick(id) });
    this.#rows.set(id, row);
    return row.node;
  }

  /** @param {number} count */
  #empty(count) {
    this.nothing.hidden = count > 0;
    if (count) {
      this.nothing.dataset.why = "";
      return;
    }
    const { view } = this;
    const plain = writeInbox({ ...view, alert: null }) === "";
    const why = this.#error ? "error" : !this.app.alerts.loaded ? "loading" : plain ? "plain" : "filtered";
    if (this.nothing.dataset.why === why) return;
    this.nothing.dataset.why = why;
    if (why === "error") failed(this.nothing, this.#error, () => void this.#load());
    else if (why === "loading") refill(this.nothing, el("p.pad.muted", {}, "–"));
    else if (why === "plain") {
      refill(
        this.nothing,
        el(
          "div.pad.healthy",
          {},
          el("h2", {}, icon("check"), " No open alerts"),
          el("p.soft", {}, "Rules check every step of every run. Their alerts appear here. "),
          el(
            "p.soft.then",
            {},
            "Who gets notified: ",
            el("a.link", { href: "/routes" }, "routes"),
            " and ",
            el("a.link", { href: "/channels" }, "channels"),
            ".",
          ),
        ),
      );
    } else {
      refill(
        this.nothing,
        el(
          "div.pad",
          {},
          el("p.soft", {}, "No alert matches this filter."),
          el(
            "button.btn.then",
            { type: "button", onclick: () => this.set({ ...PLAIN }) },
            "Show all open alerts",
          ),
        ),
      );
    }
  }

  /** @param {Alert[]} all */
  #show(all) {
    const alert = all.find((each) => each.id === this.view.alert) ?? null;
    if (alert) this.rows.setAttribute("aria-activedescendant", `al-${alert.id}`);
    else this.rows.removeAttribute("aria-activedescendant");
    this.pane.show(
      alert,
      alert
        ? this.#facts(alert)
        : { marks: this.#marks(""), silence: () => null, rule: String, now: 0, picked: false },
    );
  }

  #age() {
    const now = this.app.alerts.all();
    for (const alert of now) {
      this.#rows.get(alert.id)?.show(alert, this.#facts(alert), alert.id === this.view.alert);
    }
    this.#show(now);
  }

  /**
   * @param {string} id
   * @param {boolean} [far] on a narrow screen, scroll to the pane below
   */
  #choose(id, far = false) {
    this.set({ alert: id });
    this.#rows.get(id)?.node.scrollIntoView({ block: "nearest" });
    if (far && matchMedia(NARROW).matches) this.#enter();
  }

  #enter() {
    this.pane.node.focus({ preventScroll: true });
    this.pane.node.scrollIntoView({ block: "start" });
  }

  #back() {
    this.rows.focus({ preventScroll: true });
    if (this.view.alert) this.#rows.get(this.view.alert)?.node.scrollIntoView({ block: "center" });
  }

  /** @param {string} id */
  #pick(id) {
    if (!this.#picked.delete(id)) this.#picked.add(id);
    this.#draw();
    announce(this.#picked.size ? `${counted(this.#picked.size, "alert")} selected` : "None selected");
  }

  /** @returns {Alert[]} the selected alerts, else the chosen one, without resolved ones */
  #meant() {
    const all = this.app.alerts.all();
    const picked = all.filter((alert) => this.#picked.has(alert.id));
    return (picked.length ? picked : all.filter((alert) => alert.id === this.view.alert)).filter(
      (alert) => alert.state !== "resolved",
    );
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
          `${done.length === 1 ? ruleTitle(done[0].rule) : counted(done.length, "alert")} acknowledged`,
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
      const what = alerts.length === 1 ? ruleTitle(alerts[0].rule) : counted(alerts.length, "alert");
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
    const ids = new Set(done.map((alert) => alert.id));
    if (!this.view.alert || !ids.has(this.view.alert)) return;
    const at = this.#order.indexOf(this.view.alert);
    const rest =
      this.#order.slice(at + 1).find((id) => !ids.has(id)) ?? this.#order.find((id) => !ids.has(id));
    this.#shape = "";
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
    const typing = target.matches?.("input, textarea, select");
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      document.querySelector("dialog[open]") ||
      target.closest?.("[role=menu]")
    ) {
      return;
    }
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
      const next = neighbour(this.#order, this.view.alert, by);
      if (next) this.#choose(next);
    } else if ((event.key === "Home" || event.key === "End") && target === this.rows) {
      this.#choose(String(event.key === "Home" ? this.#order[0] : this.#order.at(-1)));
    } else if (
      event.key === "Enter" &&
      (target === this.rows || target === document.body || target === this.main)
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
    if (key === "/") this.input.select();
    else if (key === "a") void this.#acknowledge();
    else if (key === "s") this.#silence();
    else if (key === "o" && alert) go(runAddress(alert.run_id, { at: alert.onset_step, alert: alert.id }));
    else if (key === "x" && alert) this.#pick(alert.id);
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
