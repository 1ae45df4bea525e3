"""The filter language is that of the page: every case is evaluated by web/lib/runs/filter.js too."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.import_graph import ROOT
from tocsin.read.answers import MetricSummary, Reason, Run
from tocsin.read.filters import (
    Problem,
    filter_means,
    filter_metrics,
    filter_problems,
    may_name_metrics,
    needs_settings,
    run_filter,
)

CONFIG: dict[str, Any] = {
    "lr": 1e-3, "model": {"name": "swin-T", "layers": [1, 2]}, "resume": False, "depth": "12", "big": 3.0,
    "none": None, "bad": "NaN", "Mixed": "Yes",
}  # fmt: skip
RUN = Run(
    "r_1", "deblur", "my run", "running", "critical", 0.0, 0.0, tags=["fp16"], host="node-07", last_step=1200,
    alerts=2, gpu_util=float("nan"), last={"loss": 0.25, "lr": float("inf")},
    reason=Reason("loss-spike", "warning", "", None, "a"),
    metrics={
        "val_loss": MetricSummary(0.4, 9, 0.3, 2.5, 10, means={"10": 0.45}),
        "mAP50(B)": MetricSummary(0.7, 9, 0.1, 0.8, 10),
        "val loss": MetricSummary(float("nan"), 9, None, None, 2, 2), "min(x)": MetricSummary(1.0, 9),
    },
)  # fmt: skip
NAMES = ["val_loss", "mAP50(B)", "val loss", "min(x)", "lr", "gone"]
CASES = (
    "", "deblur", "-deblur", "my", 'name:"my run"', 'name:"myrun"', "tag:FP16", "-tag:bf16", "host:07",
    "state:run", "health:critical", "rule:spike", "id:r_1", "project:xx", "step>1000", "step<1000",
    "step>=1200", "step!=1200", "step:12", "step=1200.0", "alerts>=1", "attempt>1", "gpu<50", "gpu!=50",
    "gpu:nan", "skipped=0",
    "config.lr>1e-4", "config.lr=0.001", "config.lr<=1e-3", "config.model.name:swin", "config.depth>9",
    "config.resume=false", "config.resume=0", "config.lr!=2", "config.lr>1e-2", "config.model.name>3",
    "config.gone:x", "config.gone!=x", "config.lr>", "config.big=3", "config.big:3", "config.none=null",
    "config.bad=nan", "config.model.layers:1,2", "CONFIG.Mixed=yes", "-config.lr>1 fp16", "a:b:c", ":", ">",
    "config.", "config.>", '"', "-", "(", "x=y", "config.lr>-Infinity",
    "swin OR deblur", "swin OR vit", "(swin OR deblur) fp16", "(swin OR deblur) bf16", "-(swin OR vit)",
    "-(deblur fp16)", "a OR", "OR deblur", "deblur OR OR swin", ")", "deblur )", "(deblur", "-(", "()",
    '"OR"', "deblur AND fp16", "deblur AND vit", '"AND"', "AND", "stzte:x", "projxct:a", "hots:x", "ag:x",
    "((deblur) (fp16 OR x))", "name=my", 'name="my run"', "tag=fp16", "tag!=fp16", 'name~"^my.*n$"', "name~[",
    "name~(m+)+$", "name~a?a?a?a?x", "name~(|a)(|a)(|a)(|a)x", "(" * 3000, "-(" * 3000,
    "name~.*.*.*.*", r"name~(y)\1",
    "config.model.name~^SWIN", "tag~x|16", "name~", "metrics/mAP50(B)>1", "loss<0.5", "loss>0.5", "lr=inf",
    "loss!=nan", "steps>1",
    "val_loss<0.5", "val_loss<0.4", "min(val_loss)<=0.3", "max(val_loss)>2.5", "last(val_loss)=0.4",
    "-min(val_loss)>1", "(min(val_loss)<1 OR x)", "mAP50(B)>0.5", "max(mAP50(B))<0.5", '"val loss"=nan',
    '"val loss"!=nan', 'min("val loss")<1', "min(x)=1", "min(x)>1", "gone<1", "gone!=1", "Val_loss<1",
    "val_loss:0.4", "min(lr)<1", "min(none)<1", "min()<1", "median(val_loss)<1", "val_loss<x", "val_loss=",
    "state:runinng", "state=run", "state!=lost", "-health:bad", "state:", "health=ok", "HEALTH:Crit",
    "mean10(val_loss)<0.5", "mean10(val_loss)<0.45", "mean20(val_loss)<1", "mean0(val_loss)<1",
    "mean1001(val_loss)<1", "mean1000(gone)<1", "mean(val_loss)<1", "a=val_loss<1", "min(val_loss)=",
    "val_loss~1", 'a"b c', "-(config.lr>1) OR x", "stat:running", "tags:fp16", "h:x", "-proj:a",
    "loss<", "loss<abc", "-step>=1k", "loss<inf", "val_loss>", "max(val_loss)<high", "val_loss<=1e-3",
    "config.lr<fast", 'loss<" 1"', "loss<0x10", "attempt>1_000", "loss<NaN", "config.model.name<b",
    "val_loss < 0.5", "val_loss <0.4", "val_loss> 0.3 deblur", "loss ==0.25", "val_loss==0.4", "step !== 1",
    "loss< )", "config.lr = 1e-3", '"a b" = "c d"', "loss=x", "-val_loss!=high", "a or deblur", "not fp16",
    "or", '"or" deblur', "a && b", "deblur | x", '"abc', 'deblur "', "loss = = 1", "< <", "config.lr==x",
)  # fmt: skip
SCRIPT = """
import { filterProblems, runFilter } from "%s/web/lib/runs/filter.js";
import { Configs } from "%s/web/data/configs.js";
const { cases, row, config, names } = JSON.parse(process.argv[1]);
const known = (name) => names.includes(name);
const configs = new Configs({ configs: async () => ({ items: [{ id: row.id, config }] }) });
await configs.load();
const of = (id, key) => configs.get(id, key.toLowerCase());
console.log(JSON.stringify(cases.map((text) => [runFilter(text, of, known)(row),
    filterProblems(text, known).map(({ at, end, expected }) => [at, end, expected])])));
"""
letters = st.text(st.sampled_from('ab()"-~:<=!|OR \u00a0.1'), max_size=20)


def exact(summary: MetricSummary) -> dict[str, Any]:
    """Return a summary as the server sends it."""
    fields = {name: getattr(summary, name) for name in summary.__struct_fields__}
    return {name: "NaN" if value != value else value for name, value in fields.items()}


def on_the_page(cases: Sequence[str]) -> list[list[Any]]:
    """Return for each filter whether the run matches, and the problems, by the script of the page."""
    row = {name: getattr(RUN, name) for name in RUN.__struct_fields__ if name != "reason"}
    row["metrics"] = {name: exact(summary) for name, summary in RUN.metrics.items()}
    row |= {"gpu_util": "NaN", "last": {"loss": 0.25, "lr": "Infinity"}, "reason": {"rule": "loss-spike"}}
    given = json.dumps({"cases": cases, "row": row, "config": CONFIG, "names": NAMES})
    script = SCRIPT % (ROOT.as_uri(), ROOT.as_uri())
    line = ["node", "--input-type=module", "--eval", script, given]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def here(text: str) -> list[Any]:
    """Return the same by the reader of the API."""
    problems = [[each.at, each.end, each.expected] for each in filter_problems(text, NAMES)]
    return [run_filter(text, {"r_1": CONFIG}, NAMES)(RUN), problems]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_each_case_matches_as_on_the_page() -> None:
    expected = dict(zip(CASES, on_the_page(CASES), strict=True))
    assert {text: here(text) for text in CASES} == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@settings(max_examples=5, deadline=None)
@given(st.lists(letters, min_size=100, max_size=100))
def test_any_text_is_read_as_on_the_page(cases: list[str]) -> None:
    assert [here(text) for text in cases] == on_the_page(cases)


def test_a_problem_is_named_with_its_place() -> None:
    assert filter_problems("a (b OR) steps>1") == [
        Problem(5, 7, "a term after OR"),
        Problem(
            9,
            16,
            "a field, such as name: or step>, a metric that a run has, such as val_loss<, "
            "or a setting, such as config.lr>",
        ),
    ]


@pytest.mark.parametrize(("text", "before"), [("loss<", "loss<"), ("a config.lr>=fast", "config.lr>=")])
def test_an_order_needs_a_number(text: str, before: str) -> None:
    assert filter_problems(text) == [Problem(text.index(before), len(text), f"a number after {before}")]


def test_a_value_that_a_field_never_has_is_named_with_the_possible_ones() -> None:
    expected = "state:running, stalled, lost, finished or failed"
    assert filter_problems("fp16 state:runinng") == [Problem(5, 18, expected)]


@pytest.mark.parametrize(
    ("text", "field"), [("stat:running", "state:"), ("tags:fp16", "tag:"), ("projetc:a", "project:")]
)
def test_text_before_a_colon_that_resembles_a_field_is_marked(text: str, field: str) -> None:
    assert filter_problems(text) == [Problem(0, len(text), field)]


@pytest.mark.parametrize("text", ["loss > 1", "loss >1", "loss> 1", "loss==1", "config.lr == a"])
def test_a_comparison_takes_spaces_and_two_equal_signs(text: str) -> None:
    assert filter_problems(text) == []


@pytest.mark.parametrize(
    ("operator", "meant"),
    [("or", "OR in capital letters"), ("&&", "AND"), ("NOT", "- directly before the term")],
)
def test_an_operator_of_another_language_is_marked(operator: str, meant: str) -> None:
    assert filter_problems(f"a {operator} b") == [Problem(2, 2 + len(operator), meant)]


def test_a_run_may_be_called_like_an_operator() -> None:
    assert filter_problems("or") == filter_problems('a "or"') == []


def test_a_value_equals_a_number_or_nan() -> None:
    assert filter_problems("loss=high") == [Problem(0, 9, "a number or nan after loss=")]


def test_a_quote_that_is_not_closed_is_marked() -> None:
    assert filter_problems('a name:"my run') == [Problem(7, 14, 'a " that closes this')]


def test_other_text_with_a_colon_is_free_text() -> None:
    assert filter_problems("exp:3 https://x a:b") == []


def test_configurations_are_needed_only_by_filters_that_use_them() -> None:
    assert [needs_settings(text) for text in ("config.lr>1", "a -config.x:y", "tag:config", "")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_the_metrics_of_a_filter_are_named() -> None:
    """Only those that a run has, each once; vital signs come with every run."""
    text = "(val_loss<1 OR min(val_loss)<2) loss<1 max(mAP50(B))>0 none<1 config.x<1"
    assert filter_metrics(text, NAMES) == ["val_loss", "mAP50(B)"]
    assert filter_means("mean10(val_loss)<1 OR mean5(mAP50(B))>0 mean3(none)=1", NAMES) == [
        "10:val_loss",
        "5:mAP50(B)",
    ]


def test_names_of_metrics_are_needed_only_by_filters_that_may_have_one() -> None:
    texts = ("val_loss<1", "a=b", "swin OR tag:x", "step>1 loss<1 config.x<1", "name~x")
    assert [may_name_metrics(text) for text in texts] == [True, True, False, False, False]
