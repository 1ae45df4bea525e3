/**
 * The fleet: one row per run, most urgent first.
 *
 * Data: rows from data/api.js and the live socket (data/live.js); data/pins.js keeps pinned runs, and
 * data/configs.js and data/runmetrics.js the settings and metrics that columns and the filter ask for. State:
 * the address (filter, order, groups, columns, selection), read and written by lib/views/fleetview.js. View:
 * components/runs/fleetbar.js, components/runs/fleettable.js and components/runs/columnchooser.js. Actions:
 * components/runs/fleetactions.js.
 */

import { el, refill } from "../browser/dom.js";
import { fileName, handBlob } from "../browser/download.js";
import { isShortcut } from "../browser/shortcuts.js";
import { button, notice } from "../components/notice.js";
import { chooseColumns } from "../components/runs/columnchooser.js";
import { emptyFleet } from "../components/runs/empty.js";
import { FleetActions } from "../components/runs/fleetactions.js";
import { FleetBar } from "../components/runs/fleetbar.js";
import { Kiosk } from "../components/runs/kiosk.js";
import { FleetTable } from "../components/runs/fleettable.js";
import { ViewMenu } from "../components/runs/viewmenu.js";
import { showUndo } from "../components/undo.js";
import { Configs } from "../data/configs.js";
import { FleetRows } from "../data/fleetrows.js";
import { readPins, writePins } from "../data/pins.js";
import { RunMetrics } from "../data/runmetrics.js";
import { SavedViews } from "../data/savedviews.js";
import { int } from "../lib/format.js";
import { addressOf, askedIn } from "../lib/route.js";
import { columnsOf, meansOf, metricsOf, moved } from "../lib/runs/columns.js";
import { asksConfig, filterMeans, filterMetrics, filterProblems, runFilter } from "../lib/runs/filter.js";
import { suggestionsOf } from "../lib/runs/suggestions.js";
import {
  listing,
  MOST_PICKED,
  readFleet,
  resorted,
  shelfOf,
  shelfShown,
  writeFleet,
} from "../lib/views/fleetview.js";
import { fleetCsv } from "../lib/runs/fleetcsv.js";
import { opened } from "../lib/views/savedview.js";

/** Rows keep their positions for this long while numbers change, and while the pointer is over them. */
const RESORT_MS = 5_000;
/** How often the sparklines of visible rows with new records are loaded. */
const SPARKS_MS = 5_000;

/** @typedef {import("../lib/views/fleetview.js").FleetView} FleetView */

class Fleet {
  #rows = new FleetRows();
  /** @type {Set<string> | null} names of all series, once the filter or the column chooser needs them */
  #names = null;
  #loaded = false;
  /** @type {Map<string, number>} when a run was last seen as its sparklines were loaded */
  #sparked = new Map();
  #frame = 0;
  #sorted = 0;
  #closed = false;
  /**
   * Of the response with all rows.
   *
   * @type {string | null}
   */
  #cursor = null;
  #shape = "";

  /**
   * @param {App} app
   * @param {HTMLElement} main
   */
  constructor(app, main) {
    this.app = app;
    this.main = main;
    this.view = readFleet(askedIn(location));
    this.pins = readPins(localStorage);
    this.views = new SavedViews(app.api);
    this.viewMenu = new ViewMenu({
      views: this.views,
      now: () => this.view,
      projects: () => [...new Set([...this.#rows.byId.values()].map((row) => row.project))],
      may: app.session.scope !== "read",
      apply: (view) => this.set({ ...view, standard: false }),
      standard: () => this.set({ ...readFleet("?view=standard"), picked: this.view.picked }),
    });
    this.configs = new Configs(app.api);
    this.metrics = new RunMetrics(app.api, (found) => this.#measured(found));
    this.table = new FleetTable({
      now: () => app.clock.now(),
      sort: (id) => this.set(resorted(this.view, id)),
      lacking: (ids) => void this.#sparks(ids),
      mine: (id) => ({ picked: this.view.picked.includes(id), pinned: this.pins.has(id) }),
      pick: (id) => this.#pick(id),
      all: (on) => this.#pickAll(on),
      pin: (id) => this.#pin(id),
      archive: (row) => void this.actions.toggle(row),
      config: (id, key) => this.configs.get(id, key),
      loaded: (id, kind) => (kind === "config" ? this.configs : this.metrics).isLoaded(id),
      resize: (id, px) => this.set({ widths: { ...this.view.widths, [id]: px } }),
      move: (id, before) => this.set({ columns: moved(this.view.columns, id, before) }),
    });
    this.actions = new FleetActions(app.api, {
      done: () => {
        this.set({ picked: [] });
        void this.#load();
      },
      changed: (row) => {
        this.#rows.change(row);
        this.#draw();
      },
    });
    this.bar = new FleetBar({
      view: () => this.view,
      set: (change) => this.set(change),
      may: app.session.scope !== "read",
      views: this.viewMenu.node,
      columns: () => this.#chooseColumns(),
      save: () => this.#saveTable(),
      actions: this.actions,
    });
    this.kiosk = new Kiosk(
      () => this.#look(),
      (rotate) => this.set({ rotate }),
      () => this.set({ kiosk: false }),
    );
    this.page = this.#page();
    this.key = (/** @type {KeyboardEvent} */ event) => this.#key(event);
  }

  #page() {
    return el(
      "div",
      {},
      el("div.pagehead", {}, this.kiosk.heading, this.bar.count, el("span.grow"), this.kiosk.out),
      this.bar.node,
      this.bar.misread,
      this.bar.nothing,
      this.table.node,
    );
  }

  #chooseColumns() {
    chooseColumns({
      columns: () => this.view.columns,
      set: (columns) => this.set({ columns }),
      suggestions: async () => {
        const [names] = await Promise.all([this.#loadNames(), this.configs.load()]);
        return suggestionsOf(names, this.configs.keys);
      },
    });
  }

  /** Save the listed runs, in this order, with the shown columns. */
  #saveTable() {
    const rows = this.table.items.flatMap((item) => ("row" in item ? [item.row.id] : []));
    const text = fleetCsv(
      rows.flatMap((id) => this.#rows.byId.get(id) ?? []),
      columnsOf(this.view.columns),
      (id, key) => this.configs.get(id, key),
    );
    handBlob(new Blob([text], { type: "text/csv" }), fileName(["runs"], "csv"));
  }

  open() {
    this.app.title("Fleet");
    refill(this.main, this.page);
    this.table.open();
    this.#look();
    document.addEventListener("keydown", this.key);
    this.ticker = setInterval(() => this.table.age(), 1000);
    this.sparks = setInterval(() => {
      if (!document.hidden) this.table.askSparks((row) => row.last_seen_ms !== this.#sparked.get(row.id));
    }, SPARKS_MS);
    void this.#load().then(() => this.#follow());
    void this.#loadViews();
    this.unheard = this.app.live.onMessage("changed", ({ what }) => {
      if (what === "views") void this.views.load().catch(() => {});
    });
  }

  /** Receive the rows that changed since those that were loaded; all rows if none were. */
  #follow() {
    if (this.#closed) return;
    this.unsubscribe = this.app.live.subscribe(
      { view: "fleet" },
      {
        message: (frame) => this.#receive(frame),
        cursor: () => this.#cursor,
        reconnected: () => void this.#load(),
      },
    );
  }

  /** Load the saved views, and show the one that the address names, or the default. */
  async #loadViews() {
    try {
      await this.views.load();
    } catch {
      return; // the menu has none until the page is opened again
    }
    this.#showOpened();
  }

  #showOpened() {
    const asked = askedIn(location);
    const view = opened(this.views.items, asked);
    if (view) return this.set(view);
    const missing = new URLSearchParams(asked).get("view");
    if (missing && !this.view.standard) showUndo(`No view “${missing}”: renamed or deleted`, null);
  }

  close() {
    this.#closed = true;
    this.unheard?.();
    this.unsubscribe?.();
    this.table.close();
    this.metrics.close();
    clearInterval(this.ticker);
    clearInterval(this.sparks);
    cancelAnimationFrame(this.#frame);
    document.removeEventListener("keydown", this.key);
    this.kiosk.close();
  }

  moved() {
    this.view = readFleet(askedIn(location));
    this.#look();
    this.#showOpened();
    return true;
  }

  /** @param {Partial<FleetView>} change */
  set(change) {
    this.view = { ...this.view, ...change };
    history.replaceState(null, "", addressOf(location.pathname, writeFleet(this.view)));
    this.#look();
  }

  /** Apply the view: controls, columns, order. */
  #look() {
    this.bar.look();
    this.#sayMisread();
    this.kiosk.look(this.view);
    this.table.look(this.view);
    if (this.#needsConfigs()) void this.#askConfigs();
    void this.#askMetrics();
    this.#shape = "";
    this.#draw();
  }

  /** Whether the filter, a column or the order needs settings. */
  #needsConfigs() {
    const { q, columns, sort } = this.view;
    return asksConfig(q) || [...columns, sort].some((id) => id.startsWith("config:"));
  }

  /** @param {string} name */
  #isMetric = (name) => this.#names?.has(name);

  /**
   * Load the metrics that columns, the order and the filter need; for the filter also which names exist.
   *
   * @param {boolean} [again]
   */
  async #askMetrics(again = false) {
    const { q, columns, sort } = this.view;
    if ((!this.#names || again) && filterMetrics(q).length) {
      await this.#loadNames().catch(() => []); // they are loaded again when the connection is back
    }
    const named = this.#names ? filterMetrics(q, this.#isMetric) : [];
    const averaged = this.#names ? filterMeans(q, this.#isMetric) : [];
    await this.metrics.want([...new Set([...metricsOf([...columns, sort]), ...named])], {
      means: [...new Set([...meansOf([...columns, sort]), ...averaged])],
      again,
    });
  }

  /**
   * Return whether the filter needs metrics or settings of these runs that are not loaded yet.
   *
   * @param {RunRow[]} rows
   */
  #isLoading(rows) {
    const { q } = this.view;
    const metrics = filterMetrics(q, this.#isMetric).length > 0;
    const config = asksConfig(q);
    if (!metrics && !config) return false;
    return rows.some(
      ({ id }) => (metrics && !this.metrics.isLoaded(id)) || (config && !this.configs.isLoaded(id)),
    );
  }

  /** Load the names of all series, the most frequent first. */
  async #loadNames() {
    const { items } = await this.app.api.metricNames();
    this.#names = new Set(items.map(({ name }) => name));
    this.#sayMisread();
    this.#shape = "";
    this.#drawSoon();
    return items;
  }

  /**
   * Show metrics that were loaded.
   *
   * @param {Map<string, Record<string, MetricSummary>>} found
   */
  #measured(found) {
    for (const [id, metrics] of found) {
      const row = this.#rows.byId.get(id);
      if (row) this.#rows.byId.set(id, { ...row, metrics: { ...row.metrics, ...metrics } });
    }
    if (this.view.sort.includes(":")) this.#shape = "";
    this.#drawSoon();
  }

  #sayMisread() {
    const [problem] = filterProblems(this.view.q, this.#isMetric);
    this.bar.sayMisread(problem);
  }

  async #load() {
    const asked = this.#rows.now();
    try {
      const { items, now_ms, cursor } = await this.app.api.allRuns();
      this.#cursor = cursor;
      this.app.clock.receive(now_ms);
      this.#rows.answer(items, asked);
      this.#loaded = true;
      this.#draw();
      if (this.#needsConfigs()) void this.#askConfigs();
      void this.#askMetrics(true);
    } catch (error) {
      if (!this.#loaded) {
        refill(
          this.main,
          notice(
            "The runs could not be loaded",
            String(/** @type {Error} */ (error).message),
            "The page tries again when the server is back.",
            button("Try now", () => void this.#load()),
          ),
        );
      }
    }
  }

  /**
   * Load sparklines of visible rows.
   *
   * @param {string[]} ids
   */
  async #sparks(ids) {
    const asked = this.#rows.now();
    try {
      const { items } = await this.app.api.rowsOf(ids);
      this.#rows.sparks(items, asked);
      for (const row of items) this.#sparked.set(row.id, row.last_seen_ms);
      this.table.refresh(this.#rows.byId);
    } catch {
      /* they are requested again at the next scroll */
    }
  }

  async #askConfigs() {
    if (!(await this.configs.load([...this.#rows.byId.keys()]))) return;
    this.table.forget();
    this.#shape = "";
    this.#draw();
  }

  /** @param {{ items: RunRow[], removed: string[], now_ms: number }} frame */
  #receive(frame) {
    this.app.clock.receive(frame.now_ms);
    this.#rows.receive(frame);
    for (const id of frame.removed ?? []) this.#sparked.delete(id);
    this.#loaded = true;
    this.metrics.touch((frame.items ?? []).map(({ id }) => id));
    if (this.#needsConfigs()) void this.#askConfigs();
    this.#drawSoon();
  }

  #drawSoon() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    const every = [...this.#rows.byId.values()];
    const empty = !every.length && this.#loaded;
    if (empty) {
      return void (
        this.main.firstElementChild?.className === "empty" || refill(this.main, emptyFleet(this.app))
      );
    }
    if (this.main.firstElementChild !== this.page) refill(this.main, this.page);
    const shelf = shelfShown(this.view);
    const all = every.filter((row) => shelfOf(row) === shelf);
    const away = {
      archived: every.filter((row) => shelfOf(row) === "archived").length,
      deleted: every.filter((row) => shelfOf(row) === "deleted").length,
    };
    const config = (/** @type {string} */ id, /** @type {string} */ key) => this.configs.get(id, key);
    const matching = all.filter(runFilter(this.view.q, config, this.#isMetric));
    const shown = this.kiosk.only(matching);
    this.table.node.hidden = !shown.length;
    if (this.#loaded) this.bar.show(all, shown, away, this.#isLoading(all));
    this.#arrange(shown);
    this.table.refresh(this.#rows.byId);
  }

  /**
   * Sort the rows: at once if runs are added, removed or change their health, otherwise from time to time.
   *
   * @param {RunRow[]} shown
   */
  #arrange(shown) {
    const shape = shown
      .map((row) => `${row.id} ${row.health} ${row.state}`)
      .sort()
      .join("\n");
    const quiet =
      performance.now() - this.#sorted > RESORT_MS && !this.table.node.matches(":hover, :focus-within");
    if (shape === this.#shape && !quiet) return;
    this.#shape = shape;
    this.#sorted = performance.now();
    const config = (/** @type {string} */ id, /** @type {string} */ key) => this.configs.get(id, key);
    this.table.arrange(listing(shown, this.view, this.pins, config));
  }

  /** @param {string} id */
  #pick(id) {
    const { picked } = this.view;
    const on = picked.includes(id);
    if (!on && picked.length >= MOST_PICKED) showUndo(`At most ${MOST_PICKED} runs can be selected.`, null);
    this.set({ picked: on ? picked.filter((each) => each !== id) : [...picked, id].slice(0, MOST_PICKED) });
  }

  /**
   * Select all listed runs, from the top, or none.
   *
   * @param {boolean} on
   */
  #pickAll(on) {
    const ids = this.table.items.flatMap((item) => ("row" in item ? [item.row.id] : []));
    if (on && ids.length > MOST_PICKED) {
      showUndo(`Selected the first ${MOST_PICKED} of ${int(ids.length)}.`, null);
    }
    this.set({ picked: on ? ids.slice(0, MOST_PICKED) : [] });
  }

  /** @param {string} id */
  #pin(id) {
    if (!this.pins.delete(id)) this.pins.add(id);
    writePins(localStorage, this.pins);
    this.#look();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Escape" && this.view.kiosk) return this.set({ kiosk: false });
    if (!isShortcut(event)) return;
    const row = this.#rows.byId.get(
      /** @type {HTMLElement | null} */ (document.activeElement?.closest("[data-run]"))?.dataset.run ?? "",
    );
    if (event.key === "/") this.bar.input.focus();
    else if (event.key === "j" || event.key === "k") this.#step(event.key === "j" ? 1 : -1);
    else if (event.key === "w") this.set({ kiosk: !this.view.kiosk });
    else if (row && event.key === "x") this.#pick(row.id);
    else if (row && event.key === "p") this.#pin(row.id);
    else if (row && event.key === "e") void this.actions.toggle(row);
    else if (event.key === "Delete" && (row || this.view.picked.length)) {
      void (this.view.deleted
        ? this.actions.restoreAll(this.#meant(row))
        : this.actions.removeAll(this.#meant(row)));
    } else return;
    event.preventDefault();
  }

  /**
   * Return what a key applies to: the selected runs, else the focused row.
   *
   * @param {RunRow | undefined} row
   */
  #meant(row) {
    return this.view.picked.length ? this.view.picked : row ? [row.id] : [];
  }

  /**
   * Focus the link of the next or previous row.
   *
   * @param {number} by
   */
  #step(by) {
    const rows = [...this.table.body.querySelectorAll("[data-run]")];
    const now = rows.findIndex((row) => row.contains(document.activeElement));
    /** @type {HTMLElement | null | undefined} */ (
      rows[now < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, now + by))]?.querySelector(".name a")
    )?.focus();
  }
}

/** @type {OpenPage} */
export function fleetPage(app, main) {
  const fleet = new Fleet(app, main);
  fleet.open();
  return { close: () => fleet.close(), moved: () => fleet.moved() };
}
