"""Settings of built-in rules that were renamed: files and stored changes may still use the old names."""

from __future__ import annotations

from collections.abc import Mapping

# fmt: off
RENAMED: Mapping[str, Mapping[str, str]] = {
    "adversarial-imbalance": {
        "bin": "records_per_bin", "won": "won_bins", "zero": "zero_share", "risen": "risen_ratio",
        "large": "critic_loss", "grown": "critic_growth", "growing": "growing_bins",
    },
    "bad-shard": {"apart": "merge_steps", "near": "max_steps_before", "share": "same_data_share"},
    "clip-always-active": {"share": "clipped_share", "free": "resolve_share"},
    "clip-ineffective": {
        "above": "never_clips_ratio", "absurd": "absurd_threshold", "soon": "absurd_records",
        "below": "always_clips_ratio",
    },
    "component-dominates": {
        "share": "dominant_share", "often": "dominant_records", "much": "long_dominant_share",
        "long": "long_dominant_records", "apart": "warning_ratio", "grown": "grown_from_share",
        "first": "first_records",
    },
    "data-bound": {"skip": "skip_records", "info": "info_share", "warned": "warning_share"},
    "early-climb": {
        "until": "last_record", "ratio": "climb_ratio", "tail": "above_share", "back": "recovered_ratio",
    },
    "gpu-underused": {"skip": "skip_samples", "busy": "busy_percent"},
    "grad-explosion": {
        "ratio": "abnormal_ratio", "near": "usual_ratio", "confirm": "confirm_records",
        "alone": "single_record_ratio", "rise": "warm_up_step_ratio", "climb": "warm_up_total_ratio",
        "adopt": "new_baseline_records",
    },
    "grad-norm-drift": {
        "growth": "window_growth", "windows": "growing_windows", "whole": "total_growth",
        "trend": "trend_z", "lr_rises": "lr_rise_ratio", "lr_decays": "lr_decay_ratio",
    },
    "grad-precursor": {"ratio": "abnormal_ratio", "last": "second_ratio", "adopt": "new_baseline_records"},
    "loss-divergence": {
        "smooth": "smoothing_records", "first": "first_records", "ratio": "diverging_ratio",
        "records": "diverging_records", "fallen": "learned_ratio", "slow": "slow_rise_share",
        "floor": "min_rise", "habit": "recovered_before_ratio", "ruined": "critical_initial_ratio",
        "far": "critical_best_ratio", "lasting": "critical_records", "norm": "critical_norm_ratio",
        "growth": "critical_growth", "skipped": "critical_skipped_share",
    },
    "loss-drift": {
        "short": "short_bins", "long": "long_bins", "updates": "start_updates", "floor": "min_rise",
        "own": "signed_rise", "habit": "recovered_before_ratio", "rate": "lr_rise_ratio",
    },
    "loss-level-shift": {
        "bins": "bins_per_side", "crossing": "signed_rise_share", "own": "signed_rise_spread",
        "swing": "signed_rise_ratio", "history": "signed_history_bins", "floor": "min_rise",
        "back": "recovered_within", "brief_records": "excerpt_records", "brief_rise": "excerpt_ratio",
        "brief_from": "excerpt_from_step", "brief_spacing": "excerpt_spacing", "rate": "lr_rise_ratio",
    },
    "loss-oscillation": {
        "window": "fast_window", "bins": "slow_bins", "against": "half_period_max", "along": "period_min",
        "height": "min_amplitude", "grown": "warning_growth",
    },
    "loss-saturated": {
        "records": "constant_records", "constant": "constant_range", "digits": "few_digits_below",
        "quantum": "rounding_range", "long": "round_records", "resolution": "min_size_quanta",
        "few": "clamped_records", "size": "clamped_size", "spacing": "clamped_spacing",
        "moved": "resolve_change",
    },
    "loss-spike": {
        "floor": "min_height", "confirm": "confirm_records", "alone": "single_record_ratio",
        "apart": "far_apart_steps", "beyond": "single_record_first_ratio", "cap": "max_tail_ratio",
        "in_a_row": "high_records", "high": "high_ratio", "lost": "critical_lost_share",
        "sustained": "critical_records", "back": "recovered_within", "adopt": "new_baseline_records",
        "after_nan": "quiet_records_after_nan",
    },
    "lr-jump": {
        "ratio": "jump_ratio", "steady": "steady_records", "drift": "steady_change",
        "still": "warm_up_max_updates", "planned": "warm_up_max_share", "higher": "jump_peak_ratio",
        "habit": "intended_jumps",
    },
    "lr-on-skips": {"steps": "skipped_steps"},
    "lr-out-of-range": {
        "adam": "adam_max_lr", "every": "check_records", "first": "first_records",
        "improves": "learning_fall", "siblings": "similar_runs_ratio",
    },
    "lr-restart": {
        "fallen": "fallen_ratio", "rise": "rise_ratio", "least": "min_peak_ratio",
        "records": "risen_records",
    },
    "masked-nan": {
        "zeros": "zero_records", "alone": "zero_records_without_norm", "flat": "flat_records",
        "constant": "constant_range", "height": "min_loss_before",
    },
    "metric-degradation": {
        "evaluations": "worse_evaluations", "worse": "worse_by", "collapse": "critical_lost_share",
        "established": "critical_after_evaluations", "risen": "train_loss_ratio", "decibel": "worse_by_db",
        "noise": "noise_deviations", "learned": "learned_deviations", "early": "early_share",
    },
    "nonfinite-grad-norm": {"persistent": "persistent_records", "start_up": "calibration_updates"},
    "nonfinite-input": {"batches": "min_batches", "mask": "mask_share"},
    "nonfinite-weights": {"losses": "nonfinite_losses"},
    "norm-after-zero": {"streak": "zero_records", "constant": "constant_range", "falls": "learning_fall"},
    "not-learning": {
        "records": "warm_up", "at_chance": "chance_records", "updates": "warm_up_updates",
        "first": "first_records", "recent": "recent_records", "fall": "learning_fall",
        "long": "long_run_updates", "slight": "slight_fall", "significant": "significant_z",
        "few": "few_classes", "chance": "chance_range",
    },
    "overfitting": {
        "worse": "worse_by", "noise": "noise_ratio", "fall": "train_fall", "holds": "metric_holds_within",
    },
    "plateau": {
        "share": "patience_share", "better": "better_by", "spread": "signed_better_by",
        "falling": "falling_z", "rising": "rising_z", "compared": "compared_medians",
        "level": "signed_level_spread", "rate": "low_lr_ratio", "moves": "lr_fall",
        "converged": "converged_ratio",
    },
    "rank-divergence": {"steps": "diverged_steps", "agreed": "agreed_steps"},
    "recurrent-instability": {
        "apart": "merge_steps", "share": "merge_share", "even": "periodic_variation",
        "same": "same_period_within",
    },
    "restart-loop": {"beyond": "resolve_steps"},
    "same-step-failure": {
        "near": "same_step_within", "least": "same_step_min", "early": "ignore_before_step",
    },
    "scaled-grad-norm": {
        "beside": "compared_records", "least": "min_records_per_side", "match": "follows_within",
        "high": "suspicious_norm",
    },
    "scaler-at-floor": {"repeats": "floor_overflows"},
    "scaler-collapse": {"start_up": "calibration_updates", "warn_fall": "warning_fall"},
    "scaler-not-updating": {"repeats": "overflow_records", "spacing": "max_spacing"},
    "scaler-overflow-burst": {
        "start_up": "calibration_updates", "burst_count": "burst_overflows", "least": "min_overflows",
        "warn_factor": "warning_ratio", "critical_factor": "critical_ratio",
    },
    "scaler-runaway": {
        "check_from": "check_from_growths", "constant": "constant_range", "records": "dead_records",
        "cap": "scale_cap",
    },
    "slow-convergence": {"behind": "behind_by", "updates": "behind_updates", "rate": "lr_ratio"},
    "stair-steps": {
        "bins": "bins_per_side", "fall": "drop", "even": "even_within", "printed": "min_drop_quanta",
        "rate": "lr_change_ratio",
    },
    "stalled": {
        "least_s": "warning_s", "factor": "interval_ratio", "again": "pause_ratio", "few": "min_intervals",
        "critical_factor": "critical_ratio",
    },
    "straggler": {"score": "straggler_score"},
    "throughput-regression": {
        "skip": "skip_records", "base": "baseline_records", "windows": "slow_windows", "slow": "info_ratio",
        "slower": "warning_ratio", "seconds": "min_duration_s", "sibling": "similar_runs_ratio",
    },
    "trainer-lost": {"silence_s": "warning_s"},
    "vanishing-gradient": {
        "early": "early_records", "relative": "vanished_ratio", "absolute": "vanished_norm",
        "records": "vanished_records", "learned": "converged_ratio",
    },
    "weights-reset": {
        "before": "level_records", "learned": "learned_ratio", "near": "loss_within", "norm": "norm_within",
        "back": "recovered_share", "confirm": "confirm_records",
    },
    "zero-grad-norm": {
        "streak": "zero_records", "constant": "constant_range", "cycles": "accumulation_cycles",
    },
    "zero-lr": {
        "updates": "zero_updates", "records": "zero_records", "never_records": "zero_records_from_start",
        "improving": "learning_fall", "tiny": "tiny_ratio", "faded": "faded_ratio", "end": "end_share",
    },
}
"""Rule -> old name of a setting -> its name."""
# fmt: on
