/** Rules as docs/reference/custom-rules.md describes them. */
type Level = "info" | "warning" | "critical";
interface RuleFields {
  id: string;
  title: string;
  series: string;
  reducer: string;
  window: string | null;
  comparison: string | null;
  limit: number | null;
  for: string;
  recover: number | null;
  keep_firing_for: string;
  severity: Level;
  labels: Record<string, string>;
  projects: string[];
  runs: string[];
  tags: string[];
  description: string;
  remedy: string;
  enabled: boolean;
}
interface CustomRule extends RuleFields {
  kind: "custom";
  source: string;
  created_ms: number;
  created_by: string;
  updated_ms: number;
  updated_by: string;
}
interface RuleTuning {
  project: string;
  enabled: boolean | null;
  severity: Level | null;
  settings: Record<string, number>;
  source: string;
  updated_ms: number;
  updated_by: string;
}
interface BuiltinRule {
  id: string;
  kind: "builtin";
  title: string;
  severity: Level;
  doc: string;
  clock: string;
  enabled: boolean;
  settings: { name: string; value: number; unit: string; help: string }[];
  effective: { severity: Level | null; settings: Record<string, number> };
  tunings: RuleTuning[];
}
interface RulePack {
  name: string;
  title: string;
  description: string;
  enabled: boolean;
  rules: RuleFields[];
}
interface RuleAct {
  at_ms: number;
  actor: string;
  action: string;
  rule: string;
  details: Record<string, unknown>;
}
interface TrialFiring {
  severity: Level;
  subject: string;
  onset_step: number | null;
  step: number | null;
  resolved_step: number | null;
  summary: string;
  healthy: boolean;
  incident: string | null;
}
interface TrialIncident {
  id: string;
  rule: string;
  summary: string;
  severity: Level;
  onset_step: number;
  end_step: number | null;
  own: boolean;
}
interface ScopedRun {
  id: string;
  name: string;
  project: string;
  state: string;
  incidents: number;
}
interface RuleScope {
  total: number;
  runs: ScopedRun[];
  series: { name: string; runs: number }[];
}
interface TrialRun {
  run: string;
  name: string;
  project: string;
  series?: string[];
  incidents: TrialIncident[];
  steps: number;
  healthy_steps: number;
  alerts_left_out: number;
  cut: string;
  firings: TrialFiring[];
}
interface TrialAnswer {
  rule: string;
  steps: number;
  healthy_steps: number;
  firings: number;
  alerts_per_1000_healthy_steps: Record<Level, number | null>;
  runs: TrialRun[];
}
