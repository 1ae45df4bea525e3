/** The JSON of the API (docs/reference/http-api.md). Non-finite numbers are strings. */
type Wire = number | "NaN" | "Infinity" | "-Infinity";
type Severity = "critical" | "warning" | "info";
type Bucket = [number | null, number | null, number | null, number, number, number] | null;
interface Spark {
  x0: number;
  x1: number;
  buckets: Bucket[];
}
interface Reason {
  rule: string;
  severity: Severity;
  summary: string;
  onset_step: number | null;
  alert: string;
}
/** How a run ended; `severity` is that of what was wrong then, and null if nothing was. */
interface Outcome {
  kind: "finished" | "stopped" | "crashed" | "lost";
  text: string;
  severity: Severity | null;
  alert: string | null;
  acknowledged: boolean;
}
/** A view of the fleet that somebody saved; `project` is empty for all projects. */
interface SavedView {
  id: string;
  name: string;
  project: string;
  filter: string;
  columns: string;
  sort: string;
  grouping: string;
  is_default: boolean;
  author: string;
  created_ms: number;
  updated_ms: number;
}
/** A metric of a run; the extremes are those of the finite values. */
interface MetricSummary {
  last: Wire;
  step: number;
  min: number | null;
  max: number | null;
  n: number;
  nonfinite: number;
}
interface RunRow {
  id: string;
  project: string;
  name: string;
  state: "running" | "stalled" | "lost" | "finished" | "failed";
  health: "critical" | "warning" | "ok" | "ended";
  attempt: number;
  attempts: number;
  tags: string[];
  host: string | null;
  archived: boolean;
  edited_ms?: number | null;
  deletion_ms?: number | null;
  gpu_util?: Wire | null;
  metrics?: Record<string, MetricSummary>;
  created_ms: number;
  last_seen_ms: number | null;
  ended_ms: number | null;
  error: unknown;
  last_step: number | null;
  planned_steps: number | null;
  steps_per_s: number | null;
  last: Record<string, Wire | null>;
  sparks: Record<string, Spark>;
  skipped: number;
  nonfinite: number;
  alerts: number;
  severities: Record<Severity, number>;
  reason: Reason | null;
  outcome: Outcome | null;
  client: { queued: number; dropped: number; spooled_bytes: number; phase: string } | null;
}
interface SeriesRow {
  name: string;
  n: number;
  first_step: number | null;
  last_step: number | null;
  last: Wire | null;
}
interface RunDetail extends RunRow {
  config: unknown;
  notes: string | null;
  environment: Record<string, unknown> | null;
  series: SeriesRow[];
  attempts_list: {
    attempt: number;
    started_ms: number | null;
    first_step: number | null;
    last_step: number | null;
  }[];
  writers: {
    writer: string;
    attempt: number;
    rank: number;
    host: string | null;
    pid: number | null;
    records: number;
    events: number;
    connected: boolean;
  }[];
}
interface CheckpointRow {
  path: string;
  step: number;
  time_ms: number;
  size: number | null;
  complete: boolean | null;
  holds: string[];
  by: string;
  host: string;
  problem: string;
}
interface MediaRow {
  id: string;
  name: string;
  type: "image" | "histogram" | "text" | "table";
  step: number | null;
  time_ms: number;
  attempt: number;
  rank: number;
  caption: string;
  hash: string;
  bytes: number;
  facts: Record<string, unknown>;
}
interface ConsoleLine {
  id: string;
  time_ms: number;
  step: number | null;
  stream: "out" | "err";
  text: string;
  open: boolean;
  attempt: number;
  rank: number;
  dropped: number;
}
interface ConsoleAnswer {
  items: ConsoleLine[];
  older: number | null;
  newer: number;
}
interface MediaAnswer {
  items: MediaRow[];
  names: string[];
}
interface CheckpointAnswer {
  items: CheckpointRow[];
  last_good: CheckpointRow | null;
  text: string;
}
interface Packed {
  dtype: string;
  bdata: string;
}
/** Positions that several layers share are unpacked once. */
interface WireLayer {
  attempt: number;
  rank: number;
  exact?: boolean;
  x: Packed | Float64Array;
  x1?: Packed | Float64Array;
  t?: Packed | Float64Array;
  first?: Packed;
  last?: Packed;
  min?: Packed;
  max?: Packed;
  mean?: Packed;
  n?: Packed | Float64Array;
  nan?: Packed;
  pinf?: Packed;
  ninf?: Packed;
}
/** One line of `POST /compare`. */
interface CompareLine extends Partial<ComparedRun> {
  id: string;
  error?: { status: number; detail: string };
  cursor?: number;
  first_step?: number | null;
  last_step?: number | null;
  grids?: {
    attempt: number;
    rank: number;
    exact: boolean;
    x: Packed;
    t: Packed;
    x1?: Packed;
    n?: Packed;
  }[];
  series?: Record<string, (Omit<WireLayer, "attempt" | "rank" | "exact" | "x"> & { grid: number })[]>;
}
/** A series of a group of runs, in buckets of steps. */
interface GroupSeries {
  runs: number;
  newest: { n: number; mean: number | null; std: number | null; nonfinite: number };
  x: Packed;
  n: Packed;
  mean: Packed;
  std: Packed;
  min: Packed;
  max: Packed;
  nan: Packed;
  pinf: Packed;
  ninf: Packed;
}
interface GroupsAnswer {
  first_step: number | null;
  last_step: number | null;
  groups: { runs: number; missing: number; damaged: number; series: Record<string, GroupSeries> }[];
}
/** A run in a comparison; names: of its series. */
interface ComparedRun {
  id: string;
  project: string;
  name: string;
  state: RunRow["state"];
  tags: string[];
  config: unknown;
  names: string[];
  alerts: AlertHead[];
}
interface SeriesAnswer {
  run: string;
  cursor: number;
  first_step: number | null;
  last_step: number | null;
  series: Record<string, WireLayer[]>;
}
interface Evidence {
  name: string;
  value: Wire | string;
  unit: string;
  step: number | null;
}
interface Diagnosis {
  cause: string;
  evidence: Evidence[];
  alternatives: string[];
  remedies: { text: string; code: string }[];
  how_to_confirm: string;
  timeline: [number, string, string][];
}
/** An alert in a list of runs. */
interface AlertHead {
  id: string;
  run_id: string;
  rule: string;
  severity: Severity;
  state: "pending" | "firing" | "recovering" | "resolved" | "ended";
  onset_step: number | null;
  onset_ms: number | null;
  fired_ms: number | null;
  summary: string;
}
interface Alert extends AlertHead {
  incident: string;
  run_name: string;
  project: string;
  subject: string;
  fired_step: number | null;
  resolved_step: number | null;
  resolved_ms: number | null;
  late: boolean;
  causal_order: number;
  labels: Record<string, string>;
  diagnosis: Diagnosis | null;
}
interface RunEvent {
  id: number | string;
  kind: string;
  step: number | null;
  time_ms: number;
  attempt: number;
  rank: number;
  data: Record<string, unknown>;
}
interface RecordRow {
  seq: number;
  attempt: number;
  rank: number;
  step: number;
  time_ms: number;
  values: Record<string, Wire>;
}
interface Session {
  name: string;
  scope: string;
  ingest_url: string;
  version: string;
  plotly: string;
}
interface RunDelta {
  type: "run";
  id: number;
  cursor: number;
  row?: RunRow;
  series: Record<string, WireLayer[]>;
  events?: RunEvent[];
}

/** A layer of a series: parallel arrays, one item per bucket; an exact record is a bucket of one. */
interface Layer {
  attempt: number;
  rank: number;
  x: number[];
  x1: number[];
  min: number[];
  max: number[];
  mean: number[];
  last: number[];
  n: number[];
  nan: number[];
  pinf: number[];
  ninf: number[];
  t: number[];
}
/** A range of steps; null means no limit. */
interface StepWindow {
  from: number | null;
  to: number | null;
}
interface AxisPlan {
  log: boolean;
  range: [number, number];
  ticks: number[];
  labels: string[];
}
/** least: the count is a lower bound. */
interface Mark {
  x: number;
  kind: MarkKind;
  count: number;
  least?: boolean;
}
type MarkKind = "nan" | "pinf" | "ninf" | "zero" | "negative";
/** The alerting pages. */
interface AlertMarks {
  id: string;
  ack: { by: string; at_ms: number; note: string } | null;
  silenced_by: string[];
  inhibited_by: string[];
}
interface LifeLine {
  kind: "transition" | "run" | "ack" | "unack" | "notification";
  at_ms: number;
  text: string;
  state: string;
  by: string;
  /** In the history of an incident: the alert of a transition and its rule, else "". */
  alert?: string;
  rule?: string;
}
interface IncidentDetail {
  id: string;
  run_id: string;
  run_name: string;
  project: string;
  count: number;
  ack: AlertMarks["ack"];
  alerts: Alert[];
  resume: { path: string | null; step: number | null; text: string };
}
interface SimilarIncidents {
  items: {
    id: string;
    run_id: string;
    run_name: string;
    state: "open" | "mitigated" | "ended" | "resolved";
    severity: Severity;
    rule: string;
    summary: string;
    onset_step: number | null;
    onset_ms: number;
    ack: AlertMarks["ack"];
    points: number;
    reasons: string[];
    solved: { run_id: string; run_name: string; attempt: number; changed: string } | null;
  }[];
  count: number;
  before: number;
}
/** A setting that differs; null: it does not exist there. */
interface Change {
  category: string;
  name: string;
  before: string | null;
  after: string | null;
  only_failing: boolean;
  text: string;
}
interface Comparison {
  kind: "attempt" | "run";
  run_id: string;
  run_name: string;
  attempt: number | null;
  text: string;
  count: number;
  changes: Change[];
  not_recorded: string[];
}
interface RunChanges {
  run_id: string;
  attempt: number;
  failing: number;
  healthy: number;
  comparisons: Comparison[];
  diff: string;
}
type RemedyOutcome = "recovered" | "recurred" | "too-early";
interface Remedy {
  run_id: string;
  run_name: string;
  attempt: number;
  began_ms: number;
  first_step: number;
  last_step: number;
  label: string;
  changed: string;
  outcome: RemedyOutcome;
  step: number | null;
  text: string;
  loss_step: number | null;
  loss_before: Wire | null;
  loss_after: Wire | null;
}
interface Remedies {
  items: Remedy[];
  stretch: { onset: number; detected: number; last: number } | null;
  text: string;
}
interface LedgerLine {
  cause: string;
  label: string;
  held: number;
  recurred: number;
  open: number;
  cases: {
    incident: string;
    incident_run: string;
    run_id: string;
    run_name: string;
    attempt: number;
    changed: string;
    outcome: RemedyOutcome;
    step: number | null;
    text: string;
  }[];
}
interface MarkdownNode {
  kind: string;
  text?: string;
  level?: number;
  href?: string;
  children?: MarkdownNode[];
}
interface Silence {
  id: string;
  matchers: string[];
  starts_ms: number;
  ends_ms: number;
  author: string;
  reason: string;
  created_ms: number;
  state: "pending" | "active" | "expired";
  problem: string | null;
}
interface ChannelKind {
  id: string;
  title: string;
  fields: { name: string; help: string; secret: boolean; required: boolean }[];
}
interface Channel {
  id: string;
  name: string;
  kind: string;
  enabled: boolean;
  limit_per_hour: number;
  config: Record<string, string>;
  created_ms: number;
  updated_ms: number;
  last_sent_ms: number | null;
  trouble: string;
}
interface DeliveryAttempt {
  no: number;
  at_ms: number;
  took_ms: number;
  outcome: string;
  detail: string;
}
interface Delivery {
  id: string;
  channel_id: string;
  channel: string | null;
  kind: string;
  title: string;
  state: "waiting" | "claimed" | "sent" | "failed";
  created_ms: number;
  due_ms: number | null;
  sent_ms: number | null;
  error: string | null;
  attempts: DeliveryAttempt[];
}
interface DeliveryStatus {
  waiting: number;
  failed: number;
  failing: string[];
  trouble: string;
}
interface BrowserNote {
  id: string;
  kind: string;
  title: string;
  created_ms: number;
  reason: string;
  alerts: (Alert & { over?: boolean })[];
}
interface PushSubscriptionItem {
  id: string;
  name: string;
  by: string;
  created_ms: number;
  confirmed_ms: number;
}
interface PushStatus {
  key: string;
  channels: string[];
  items: PushSubscriptionItem[];
}
interface RouteTrial {
  alert: string | null;
  labels: Record<string, string>;
  routes: {
    name: string;
    channels: string[];
    group: Record<string, string>;
    wait_s: number;
    muted: boolean;
  }[];
  silenced_by: string[];
  inhibited_by: string[];
  imported: boolean;
}
interface TokenRow {
  id: string;
  name: string;
  scope: string;
  project: string | null;
  created_ms: number;
  revoked_ms: number | null;
  token?: string;
}
interface ProjectRow {
  name: string;
  runs: number;
  active: number;
  last_seen_ms: number;
}
interface About {
  version: string;
  python: string;
  now_ms: number;
  zone: string;
  public_url: string;
  storage: { database: string; bytes: number; free_bytes: number | null };
  retention: { days: number; projects: Record<string, number> };
  ping: { host: string; every_s: number } | null;
  private_addresses: boolean;
  runs: number;
}
interface HealthAnswer {
  status: string;
  version: string;
  database?: string;
  writer?: Record<string, unknown>;
  connections?: { training_processes: number; runs: number; open: number; limit: number; closed: number };
  notifications?: DeliveryStatus;
}
interface AuditRow {
  id: number | string;
  at_ms: number;
  by: string;
  action: string;
  subject: string;
  details: unknown;
}
