/** Requests of runs. The responses are complete; the socket only delivers changes sooner. */

import { jsonLines } from "../lib/ndjson.js";
import { Http, JSON_HEADERS, query } from "./http.js";

/** Metrics in one request. */
const MOST_METRICS = 20;
/** Of as many earlier runs the previous one is searched. */
const MOST_BEFORE = 100;

export class Api extends Http {
  /**
   * Yield details and series of many runs, in the requested order.
   *
   * @param {{ runs: ({ id: string } & StepWindow)[], names: string[], buckets?: number, details: boolean
   *   }} asked
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<CompareLine>} throws ApiError; AbortError is passed on
   */
  async *compare(asked, signal) {
    const { body } = await this.answer("/compare", {
      method: "POST",
      body: JSON.stringify(asked),
      headers: { ...JSON_HEADERS, accept: "application/x-ndjson" },
      signal,
    });
    if (body) yield* jsonLines(body);
  }

  /**
   * Aggregate runs by group.
   *
   * @param {{ groups: string[][], names: string[], buckets: number, x: string } & StepWindow} asked
   * @param {AbortSignal} [signal]
   * @returns {Promise<GroupsAnswer>}
   */
  groups(asked, signal) {
    return this.send("POST", "/compare/groups", asked, { signal });
  }

  /** @returns {Promise<Session>} */
  session() {
    return this.ask("/session");
  }

  /**
   * @param {string | null} after
   * @returns {Promise<{ items: RunRow[], next: string | null, now_ms: number, cursor: string }>} one page,
   *   newest run first, without sparklines
   */
  runs(after = null) {
    return this.ask(`/runs${query({ after, limit: 5000, sparks: "false" })}`);
  }

  /**
   * Return the newest runs of a project that began before this one, without sparklines.
   *
   * @param {string} project
   * @param {string} id
   * @returns {Promise<{ items: RunRow[] }>} newest first
   */
  runsBefore(project, id) {
    return this.ask(`/runs${query({ project, after: id, limit: MOST_BEFORE, sparks: "false" })}`);
  }

  /**
   * Return the metrics of one page of runs.
   *
   * @param {string[]} names
   * @param {{ ids?: string[], after?: string | null, means?: string[] }} which means: of so many newest
   *   values of some of them, `10:val_loss`
   * @returns {Promise<{ metrics: Map<string, Record<string, MetricSummary>>, next: string | null }>} by run
   */
  async runMetrics(names, { ids, after, means = [] }) {
    /** @type {Map<string, Record<string, MetricSummary>>} */
    const found = new Map();
    let next = null;
    for (let i = 0; i < names.length; i += MOST_METRICS) {
      const metrics = names.slice(i, i + MOST_METRICS);
      const some = means.filter((mean) => metrics.includes(mean.slice(mean.indexOf(":") + 1)));
      const asked = { sparks: "false", ids, metrics, means: some.length ? some : undefined, after };
      const page = await this.ask(`/runs${query(asked)}`);
      for (const row of page.items) found.set(row.id, { ...found.get(row.id), ...row.metrics });
      next = page.next;
    }
    return { metrics: found, next };
  }

  /** @returns {Promise<{ items: { name: string, runs: number }[], more: boolean }>} most frequent first */
  metricNames() {
    return this.ask("/metric-names?limit=5000");
  }

  /**
   * Return these runs with their sparklines.
   *
   * @param {string[]} ids
   * @returns {Promise<{ items: RunRow[] }>}
   */
  rowsOf(ids) {
    return this.ask(`/runs${query({ ids })}`);
  }

  /**
   * Return all runs, page by page.
   *
   * @returns {Promise<{ items: RunRow[], now_ms: number, cursor: string }>} cursor: of a subscription to what
   *   changed since
   */
  async allRuns() {
    let page = await this.runs();
    const { cursor } = page;
    const items = [...page.items];
    while (page.next) {
      page = await this.runs(page.next);
      items.push(...page.items);
    }
    return { items, now_ms: page.now_ms, cursor };
  }

  /**
   * @param {string} id
   * @returns {Promise<RunDetail>} without sparklines
   */
  run(id) {
    return this.ask(`/runs/${encodeURIComponent(id)}?sparks=false`);
  }

  /**
   * @param {string} id
   * @param {string[]} names
   * @param {StepWindow & { buckets?: number }} window
   * @param {AbortSignal} [signal]
   * @returns {Promise<SeriesAnswer>}
   */
  series(id, names, { from, to, buckets, logFrom = null }, signal) {
    const window = { from: floor(from), to: ceil(to), buckets, log_from: logFrom };
    const asked = query({ names: repeated(names), ...window, chart: "true" });
    return this.ask(`/runs/${encodeURIComponent(id)}/series${asked}`, { signal });
  }

  /**
   * Return all events except layer norms, of which there are thousands, and the contents of images.
   *
   * @param {string} id
   * @returns {Promise<{ items: RunEvent[], next: unknown }>}
   */
  events(id) {
    const without = ["layers", "layer-names", "media-content", "console"];
    return this.ask(`/runs/${encodeURIComponent(id)}/events${query({ limit: 5000, without })}`);
  }

  /**
   * Return the checkpoints of a run that still exist, and the last good one.
   *
   * @param {string} id
   * @returns {Promise<CheckpointAnswer>}
   */
  checkpoints(id) {
    return this.ask(`/runs/${encodeURIComponent(id)}/checkpoints`);
  }

  /**
   * Return what a run wrote to its terminal: the newest lines, or those before or after a place.
   *
   * @param {string} id
   * @param {import("../components/runs/consolelog.js").Asked} asked
   * @returns {Promise<ConsoleAnswer>}
   */
  console(id, asked) {
    return this.ask(`/runs/${encodeURIComponent(id)}/console${query(asked)}`);
  }

  /**
   * Return the images, histograms, texts and tables of a run.
   *
   * @param {string} id
   * @returns {Promise<MediaAnswer>}
   */
  media(id) {
    return this.ask(`/runs/${encodeURIComponent(id)}/media`);
  }

  /**
   * Return the address of the content of one of them.
   *
   * @param {string} id
   * @param {string} hash
   */
  mediaUrl(id, hash) {
    return `${this.base}/runs/${encodeURIComponent(id)}/media/${encodeURIComponent(hash)}`;
  }

  /**
   * Return the content of one of them.
   *
   * @param {string} id
   * @param {string} hash
   */
  mediaContent(id, hash) {
    const path = this.mediaUrl(id, hash).slice(this.base.length);
    return this.answer(path, { headers: { accept: "*/*" } });
  }

  /**
   * Return the gradient norms by layer.
   *
   * @param {string} id
   * @param {StepWindow} window
   * @param {string} series
   * @returns {Promise<import("../lib/charts/heat.js").LayersAnswer>}
   */
  layers(id, { from, to }, series) {
    return this.ask(
      `/runs/${encodeURIComponent(id)}/layers${query({ from: floor(from), to: ceil(to), series })}`,
    );
  }

  /**
   * Return one page of exact records.
   *
   * @param {string} id
   * @param {string[]} names
   * @param {StepWindow} window
   * @param {number} limit
   * @returns {Promise<{ items: RecordRow[], next: string | null }>}
   */
  records(id, names, { from, to }, limit) {
    const asked = query({ names: repeated(names), from: ceil(from), to: floor(to), limit });
    return this.ask(`/runs/${encodeURIComponent(id)}/records${asked}`);
  }

  /**
   * Change a run. `seen` holds the values that the user saw; the server rejects the change if they are
   * outdated.
   *
   * @param {string} id
   * @param {{ archived?: boolean, name?: string, notes?: string, tags?: string[], seen?: { name?: string,
   *   notes?: string, tags?: string[] } }} change
   * @returns {Promise<RunRow>} throws ApiError, 409 if `seen` is outdated
   */
  change(id, change) {
    return this.send("PATCH", `/runs/${encodeURIComponent(id)}`, change);
  }

  /**
   * Parse Markdown into nodes to draw.
   *
   * @param {string} text
   * @returns {Promise<{ nodes: MarkdownNode[] }>}
   */
  markdown(text) {
    return this.send("POST", "/markdown", { text });
  }

  /**
   * @param {string} id
   * @param {boolean} archived
   * @returns {Promise<RunRow>}
   */
  archive(id, archived) {
    return this.change(id, { archived });
  }

  /**
   * Schedule the deletion of a run in `after_s` seconds; until then `restore` cancels it.
   *
   * @param {string} id
   * @param {number} after_s
   * @returns {Promise<null>}
   */
  remove(id, after_s) {
    return this.send("DELETE", `/runs/${encodeURIComponent(id)}${query({ after_s })}`);
  }

  /**
   * @param {string} id
   * @returns {Promise<RunRow>}
   */
  restore(id) {
    return this.send("POST", `/runs/${encodeURIComponent(id)}/restore`);
  }

  /** @returns {Promise<{ items: { id: string, config: unknown }[] }>} */
  configs() {
    return this.ask("/configs");
  }

  /**
   * Create a link that shows one chart without a login.
   *
   * @param {string} run
   * @param {{ series: string, log: ("x" | "y")[], days: number }} shown log: logarithmic axes
   * @returns {Promise<{ path: string, until_ms: number }>}
   */
  embed(run, shown) {
    return this.send("POST", `/runs/${encodeURIComponent(run)}/embed`, shown);
  }

  /** @returns {Promise<{ items: EmbedItem[] }>} links of embedded charts that were given out */
  embeds() {
    return this.ask("/embeds");
  }

  /** @param {string} id */
  revokeEmbed(id) {
    return this.send("DELETE", `/embeds/${encodeURIComponent(id)}`);
  }

  /**
   * Return the layout of a project's run pages, or of its comparisons.
   *
   * @param {string} project
   * @param {"run" | "compare"} page
   * @returns {Promise<{ layout: string, author: string, updated_ms: number | null }>}
   */
  layout(project, page) {
    return this.ask(`/projects/${encodeURIComponent(project)}/layout${query({ page })}`);
  }

  /**
   * Return the baselines of a project.
   *
   * @param {string} project
   * @returns {Promise<{ runs: string[] }>}
   */
  baselines(project) {
    return this.ask(`/projects/${encodeURIComponent(project)}/baselines`);
  }

  /**
   * Pin or unpin a run as a baseline of its project.
   *
   * @param {string} project
   * @param {{ run: string, pinned: boolean }} pin
   * @returns {Promise<{ runs: string[] }>}
   */
  pinBaseline(project, pin) {
    return this.send("PUT", `/projects/${encodeURIComponent(project)}/baselines`, pin);
  }

  /**
   * Save the layout of a project's run pages, or of its comparisons.
   *
   * @param {string} project
   * @param {"run" | "compare"} page
   * @param {string} layout
   */
  saveLayout(project, page, layout) {
    return this.send("PUT", `/projects/${encodeURIComponent(project)}/layout${query({ page })}`, { layout });
  }

  /**
   * Return the address of a report of one run, or of several compared: one HTML file that needs no server.
   *
   * @param {string[]} ids
   * @param {string[]} [names] series besides the vital signs; the report of a single run holds all series
   */
  report(ids, names = []) {
    if (ids.length === 1) return `${this.base}/runs/${encodeURIComponent(ids[0])}/report`;
    return `${this.base}/compare/report${query({ runs: ids, names: repeated(names) })}`;
  }

  /**
   * Return the address of an incident as one HTML file, or of its postmortem as a ZIP file.
   *
   * @param {string} id
   * @param {"report" | "postmortem"} kind
   */
  incidentFile(id, kind) {
    return `${this.base}/incidents/${encodeURIComponent(id)}/${kind}`;
  }

  /**
   * Return the address of all records as CSV, never downsampled.
   *
   * @param {string} id
   * @param {string[]} [names] only these series
   * @param {StepWindow} [window]
   */
  csv(id, names = [], { from, to } = { from: null, to: null }) {
    const window = { from: floor(from), to: ceil(to) };
    const asked = query({ names: repeated(names), ...window, format: "csv" });
    return `${this.base}/runs/${encodeURIComponent(id)}/records${asked}`;
  }
}

/**
 * The server splits a single name at commas; a repeated name is kept whole.
 *
 * @param {string[]} names
 */
const repeated = (names) => (names.length === 1 ? [...names, ...names] : names);
/** @param {number | null} v */
const floor = (v) => (v === null ? null : Math.floor(v));
/** @param {number | null} v */
const ceil = (v) => (v === null ? null : Math.ceil(v));
