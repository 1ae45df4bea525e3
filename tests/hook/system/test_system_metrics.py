"""Metrics of the machine: bounded, guarded, and passed to the training thread."""

from __future__ import annotations

import inspect
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.hook.captured import watched
from tocsin.system import system_metrics
from tocsin.system.system_metrics import EVERY_S, FAILURES, GpuMetrics, Process, SystemMetrics, chosen

GIB = 1 << 30


class Driver:
    """NVML as in nvidia-ml-py, with one GPU. What is in ``broken`` is not supported."""

    NVML_TEMPERATURE_GPU, NVML_CLOCK_SM = 0, 1

    def __init__(self, *broken: str) -> None:
        self.mask, self.broken = 0, broken

    def __getattr__(self, name: str) -> Any:
        def answer(*arguments: Any) -> Any:
            if name in self.broken:
                raise RuntimeError("not supported")
            return {
                "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87),
                "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=3 * GIB),
                "nvmlDeviceGetTemperature": 61,
                "nvmlDeviceGetPowerUsage": 312_000,
                "nvmlDeviceGetClockInfo": 1980,
                "nvmlDeviceGetCurrentClocksEventReasons": self.mask,
                "nvmlDeviceGetHandleByIndex": ("index", *arguments),
                "nvmlDeviceGetHandleByUUID": ("uuid", *arguments),
                "nvmlDeviceGetUUID": f"GPU-{'ab' if arguments[0][1:] == (0,) else 'cd'}-11"
                if arguments and isinstance(arguments[0], tuple)
                else "",
                "nvmlInit": None,
                "nvmlDeviceGetCount": 2,
            }[name]

        return answer


class Source:
    """Readings that fail on request."""

    def __init__(self, *, fails: bool) -> None:
        self.fails, self.asked = fails, 0

    def read(self) -> tuple[dict[str, float], list[Any]]:
        self.asked += 1
        if self.fails:
            raise OSError("gone")
        return {"sys/x": 1.0}, []


def test_a_gpu_has_all_six_readings() -> None:
    """Utilization in percent, memory in GiB, temperature in °C, power in W, clock in MHz, throttling."""
    values, events = GpuMetrics(Driver(), [("0", object())]).read()
    assert values == {
        "sys/gpu0/util_percent": 87.0,
        "sys/gpu0/memory_gib": 3.0,
        "sys/gpu0/temperature_c": 61.0,
        "sys/gpu0/power_w": 312.0,
        "sys/gpu0/sm_clock_mhz": 1980.0,
        "sys/gpu0/throttled": 0.0,
        "gpu_util": 87.0,
    }
    assert events == []


def test_throttle_reasons_are_reported_when_they_change() -> None:
    """Once when they start, once when they end."""
    driver = Driver()
    gpu = GpuMetrics(driver, [("3", object())])
    reported = []
    for mask in (0, 0x40 | 0x01, 0x40, 0):
        driver.mask = mask
        reported.append(gpu.read()[1])
    hot, cool = {"gpu": "3", "reasons": ["hw-thermal"]}, {"gpu": "3", "reasons": []}
    assert reported == [[], [("gpu-throttle", hot)], [], [("gpu-throttle", cool)]]


def test_what_a_gpu_does_not_support_is_left_out() -> None:
    """A MIG slice has no utilization; the other metrics are there."""
    values, _ = GpuMetrics(Driver("nvmlDeviceGetUtilizationRates"), [("0", object())]).read()
    assert "gpu_util" not in values
    assert values["sys/gpu0/power_w"] == 312.0


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ["0", "1", "2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, ["2", "3"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "GPU-af,1"}, ["GPU-af", "1"]),
        ({"CUDA_VISIBLE_DEVICES": "1,9,2"}, ["1"]),
        ({"CUDA_VISIBLE_DEVICES": "2,3", "LOCAL_RANK": "1"}, ["3"]),
        ({"LOCAL_RANK": "0"}, ["0"]),
        ({"CUDA_VISIBLE_DEVICES": "3", "LOCAL_RANK": "3"}, ["3"]),
    ],
)
def test_a_process_reads_its_own_gpus(environ: dict[str, str], expected: list[str]) -> None:
    """CUDA_VISIBLE_DEVICES as CUDA reads it, and one GPU for each local rank."""
    assert chosen(environ, 4) == expected


@pytest.mark.parametrize(
    ("visible", "handles"),
    [
        ("1", [("index", 1)]),
        ("GPU-cd", [("uuid", "GPU-cd-11")]),
        ("GPU-ab-11,0", [("uuid", "GPU-ab-11"), ("index", 0)]),
        ("MIG-7", [("uuid", "MIG-7")]),
        ("GPU-", [("uuid", "GPU-")]),
    ],
)
def test_gpus_are_found_by_index_or_uuid(
    visible: str, handles: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A UUID may be abbreviated as in CUDA, if it identifies one GPU."""
    monkeypatch.setitem(sys.modules, "pynvml", Driver())
    found = system_metrics.graphics({"CUDA_VISIBLE_DEVICES": visible})
    assert found is not None
    assert [handle for _, handle in found._handles] == handles


def test_a_gpu_that_the_driver_refuses_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU without permission, or fallen off the bus, is left out."""
    monkeypatch.setitem(sys.modules, "pynvml", Driver("nvmlDeviceGetHandleByUUID"))
    found = system_metrics.graphics({"CUDA_VISIBLE_DEVICES": "GPU-ab,1"})
    assert found is not None
    assert [name for name, _ in found._handles] == ["1"]


def test_the_real_library_has_every_name_we_ask_for() -> None:
    """nvidia-ml-py is imported as ``pynvml``; without a driver it raises and is not used."""
    nvml = pytest.importorskip("pynvml")
    asked = set(re.findall(r"nvml\.(nvml\w+|NVML_\w+)", inspect.getsource(system_metrics)))
    assert len(asked) > 8
    assert [name for name in asked if not hasattr(nvml, name)] == []
    assert all(hasattr(nvml, f"nvmlClocksThrottleReason{name}") for name in ("SwPowerCap", "HwSlowdown"))


def test_the_process_is_measured() -> None:
    """Real psutil: resident memory and the host's memory are above 0."""
    psutil = pytest.importorskip("psutil")
    values, _ = Process(psutil).read()
    assert 0.01 < values["sys/rss_gib"] < 1000
    assert 0 < values["sys/host_memory_percent"] <= 100
    assert values["sys/cpu_percent"] >= 0


def test_readings_are_5_s_apart() -> None:
    """However often the sender calls."""
    reported: list[dict[str, float]] = []
    machine = SystemMetrics({"CUDA_VISIBLE_DEVICES": ""}, lambda values, events: reported.append(values))
    machine.step(0.0)
    machine._sources = [Source(fails=False)]
    for tick in range(1, 101):
        machine.step(tick * 0.2)
    assert len(reported) == 100 * 0.2 // EVERY_S == 4


def test_a_source_that_fails_is_not_read_again() -> None:
    """The other sources are not affected."""
    reported: list[dict[str, float]] = []
    machine = SystemMetrics({"CUDA_VISIBLE_DEVICES": ""}, lambda values, events: reported.append(values))
    machine.step(0.0)
    bad, good = Source(fails=True), Source(fails=False)
    machine._sources = [bad, good]
    for tick in range(1, 8):
        machine.step(tick * EVERY_S)
    assert (bad.asked, good.asked, len(reported)) == (FAILURES, 7, 7)


def test_without_the_libraries_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are optional extras."""

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    assert (system_metrics.process(), system_metrics.graphics({})) == (None, None)


def test_a_reading_joins_the_next_step_and_no_earlier_one() -> None:
    """A run without steps gets no records, so that it counts as stalled."""
    with watched(patch=False) as (run, outbox):
        run.log(loss=1.0, step=4)
        run._reporter.add_reading({"sys/x": 1.0}, [])
        run._reporter.add_reading({"sys/x": 2.0}, [("gpu-throttle", {"gpu": "0", "reasons": []})])
        assert outbox.series("sys/x") == []
        run.log(loss=1.0, step=5)
        run.log(loss=1.0, step=6)
    assert outbox.series("sys/x") == [(5, 2.0)]
    assert outbox.events("gpu-throttle") == [{"step": 5, "gpu": "0", "reasons": []}]
