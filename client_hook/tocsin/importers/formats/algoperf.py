"""AlgoPerf ``measurements.csv``: one row every 100 steps, and rows of evaluations between them."""

from __future__ import annotations

from .csv_table import CsvParser, table_format


class AlgoPerfParser(CsvParser):
    """Skip the timings and the score of the benchmark."""

    left = frozenset(
        {"score", "total_duration", "accumulated_submission_time", "accumulated_eval_time",
         "accumulated_logging_time", "preemption_count",
         "train/num_examples", "validation/num_examples", "test/num_examples"}
    )  # fmt: skip


MARKS = ("global_step", "preemption_count", "total_duration")
FORMAT = table_format("AlgoPerf measurements.csv", 30, MARKS, AlgoPerfParser)
