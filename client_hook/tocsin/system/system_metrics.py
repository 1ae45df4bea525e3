"""Read metrics of the GPU, the process and the host every 5 s, on a separate thread.

The GPU needs ``nvidia-ml-py`` (extra ``gpu``), process and host need ``psutil`` (extra ``system``); without
them nothing is read. There are no torch or CUDA calls: NVML queries the driver and creates no context. A
reading that fails is omitted; a library that fails FAILURES times in a row is no longer used.
"""

from __future__ import annotations

import glob
import importlib
from collections.abc import Callable, Mapping
from typing import Any

EVERY_S = 5.0
FAILURES = 3
PROC = "/proc/driver/nvidia"
MOST_GPUS = 16
GIB = 1 << 30

REASONS = {
    0x0004: "sw-power-cap",
    0x0008: "hw-slowdown",
    0x0020: "sw-thermal",
    0x0040: "hw-thermal",
    0x0080: "hw-power-brake",
}
"""NVML's clock event reasons that slow training down (nvml.h, nvmlClocksEventReason*)."""

Event = tuple[str, dict[str, Any]]
OnReading = Callable[[dict[str, float], list[Event]], None]


class SystemMetrics:
    """Read the metrics when they are due, and pass them to ``on_reading``."""

    def __init__(self, environ: Mapping[str, str], on_reading: OnReading) -> None:
        self._environ = environ
        self._on_reading = on_reading
        self._due: float | None = None
        self._sources: list[Any] | None = None
        self._failed: dict[int, int] = {}

    def step(self, now: float) -> None:
        """Read if it is due. The first reading is EVERY_S after the first call. ``now``: seconds, monotonic
        clock.
        """
        if self._due is None or now >= self._due:
            first, self._due = self._due is None, now + EVERY_S
            if first:
                self._sources = [one for one in (process(), graphics(self._environ)) if one is not None]
            else:
                self._read()

    def _read(self) -> None:
        values: dict[str, float] = {}
        events: list[Event] = []
        for source in tuple(self._sources or ()):
            try:
                read, new_events = source.read()
                values.update(read)
                events += new_events
                self._failed[id(source)] = 0
            except Exception:
                self._fail(source)
        if values or events:
            self._on_reading(values, events)

    def _fail(self, source: Any) -> None:
        self._failed[id(source)] = self._failed.get(id(source), 0) + 1
        if self._failed[id(source)] >= FAILURES and self._sources is not None:
            self._sources.remove(source)


def process() -> Process | None:
    """Return the metrics of this process and its host, or None without psutil."""
    try:
        return Process(importlib.import_module("psutil"))
    except Exception:
        return None


class Process:
    """CPU and memory of the process, memory of the host."""

    def __init__(self, psutil: Any) -> None:
        self._psutil = psutil
        self._process = psutil.Process()
        self._process.cpu_percent(None)  # the first result is always 0

    def read(self) -> tuple[dict[str, float], list[Event]]:
        """Return ``sys/cpu_percent`` (100 is one core), ``sys/rss_gib`` and ``sys/host_memory_percent``."""
        with self._process.oneshot():
            cpu, rss = self._process.cpu_percent(None), self._process.memory_info().rss
        host = self._psutil.virtual_memory().percent
        return {
            "sys/cpu_percent": float(cpu),
            "sys/rss_gib": rss / GIB,
            "sys/host_memory_percent": float(host),
        }, []


def graphics(environ: Mapping[str, str]) -> GpuMetrics | None:
    """Return the metrics of this process's GPUs, or None without nvidia-ml-py or a driver."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
        found = [(name, _handle(nvml, name, count)) for name in chosen(environ, count)[:MOST_GPUS]]
        handles = [(name, handle) for name, handle in found if handle is not None]
        return GpuMetrics(nvml, handles) if handles else None
    except Exception:
        return None


def installed_gpus(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return ``gpus`` (name, count, memory in GiB) and ``driver`` of this process, as far as known.

    Without nvidia-ml-py, they are read from /proc, which has no memory sizes. Empty without an NVIDIA GPU.
    """
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
        handles = [_handle(nvml, name, count) for name in chosen(environ, count)[:MOST_GPUS]]
        gpus = [_described(nvml, handle) for handle in handles if handle is not None]
        driver = _text(nvml.nvmlSystemGetDriverVersion())
    except Exception:
        gpus, driver = _gpus_in_proc(environ), _driver_in_proc()
    kinds = [one for at, one in enumerate(gpus) if one not in gpus[:at]]
    listed = [{**kind, "count": gpus.count(kind)} for kind in kinds]
    return {"gpus": listed, "driver": driver} if listed else {}


def _described(nvml: Any, handle: Any) -> dict[str, Any]:
    memory = _answer(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total / GIB)
    size = {} if memory is None else {"memory_gib": round(memory, 1)}
    return {"name": _text(nvml.nvmlDeviceGetName(handle)), **size}


def _text(given: Any) -> str:
    """Return what NVML returns as text; older versions return bytes."""
    return given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)


def _gpus_in_proc(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    names = []
    for path in sorted(glob.glob(f"{PROC}/gpus/*/information")):
        with open(path, encoding="utf-8", errors="replace") as file:
            models = [line.partition(":")[2].strip() for line in file if line.startswith("Model:")]
        names.append(models[0] if models else "GPU")
    used = [int(name) for name in chosen(environ, len(names)) if name.isdigit()]
    return [{"name": names[index]} for index in used[:MOST_GPUS]]


def _driver_in_proc() -> str:
    try:
        with open(f"{PROC}/version", encoding="utf-8", errors="replace") as file:
            words = file.readline().split()
    except OSError:
        return ""
    return next((word for word in words if "." in word and word.replace(".", "").isdigit()), "")


def chosen(environ: Mapping[str, str], count: int) -> list[str]:
    """Return which of ``count`` GPUs this process uses, by CUDA_VISIBLE_DEVICES and LOCAL_RANK.

    Indices are those of NVML (CUDA_DEVICE_ORDER=PCI_BUS_ID); UUIDs are possible too.
    """
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(k) for k in range(count)] if visible is None else _listed(visible, count)
    rank = environ.get("LOCAL_RANK", "")
    if rank.isdigit() and int(rank) < len(names):
        return [names[int(rank)]]
    return names


def _listed(visible: str, count: int) -> list[str]:
    """Return the entries as CUDA reads them: up to the first one that names no device."""
    names = []
    for name in (part.strip() for part in visible.split(",")):
        if not (name.isdigit() and int(name) < count) and not name.startswith(("GPU-", "MIG-")):
            break
        names.append(name)
    return names


def _handle(nvml: Any, name: str, count: int) -> Any:
    """Return the handle of a GPU by its index or its UUID, which may be abbreviated, or None."""
    try:
        if name.isdigit():
            return nvml.nvmlDeviceGetHandleByIndex(int(name))
        return nvml.nvmlDeviceGetHandleByUUID(_whole(nvml, name, count))
    except Exception:
        return None


def _whole(nvml: Any, name: str, count: int) -> str:
    """Return the UUID that starts with ``name``, if exactly one does; a MIG slice's unchanged."""
    if not name.startswith("GPU-"):
        return name
    every = [nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(k)) for k in range(count)]
    texts = [one.decode() if isinstance(one, bytes) else str(one) for one in every]
    fits = [text for text in texts if text.startswith(name)]
    return fits[0] if len(fits) == 1 else name


def _answer(ask: Callable[[], float]) -> float | None:
    try:
        return float(ask())
    except Exception:
        return None


def _reasons(nvml: Any) -> Any:
    """Return NVML's function for clock event reasons by its new name, or by its deprecated one."""
    new = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    return new or nvml.nvmlDeviceGetCurrentClocksThrottleReasons


class GpuMetrics:
    """Utilization, memory, temperature, power, clock and throttling of GPUs."""

    def __init__(self, nvml: Any, handles: list[tuple[str, Any]]) -> None:
        self._nvml = nvml
        self._handles = handles
        self._slowed: dict[str, tuple[str, ...]] = {}

    def read(self) -> tuple[dict[str, float], list[Event]]:
        """Return ``gpu_util`` (mean, percent), ``sys/gpu<k>/...``, and an event if the throttling reasons
        changed.

        Raises:
            OSError: NVML returned no value at all.
        """
        values: dict[str, float] = {}
        events: list[Event] = []
        for k, (name, handle) in enumerate(self._handles):
            for key, value in self._values(handle):
                values[f"sys/gpu{k}/{key}"] = value
            events += self._throttling(k, name, handle, values)
        used = [value for name, value in values.items() if name.endswith("/util_percent")]
        if used:
            values["gpu_util"] = sum(used) / len(used)
        if not values:
            raise OSError("NVML returned no value")
        return values, events

    def _values(self, handle: Any) -> list[tuple[str, float]]:
        """Return the metrics that this GPU supports (MIG slices have no utilization)."""
        nvml = self._nvml
        asked: tuple[tuple[str, Callable[[], float]], ...] = (
            ("util_percent", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            ("memory_gib", lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / GIB),
            ("temperature_c", lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            ("power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            ("sm_clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        )
        return [(key, value) for key, ask in asked if (value := _answer(ask)) is not None]

    def _throttling(self, k: int, name: str, handle: Any, values: dict[str, float]) -> list[Event]:
        try:
            mask = int(_reasons(self._nvml)(handle))
        except Exception:
            return []
        reasons = tuple(text for bit, text in REASONS.items() if mask & bit)
        values[f"sys/gpu{k}/throttled"] = float(bool(reasons))
        before, self._slowed[name] = self._slowed.get(name, ()), reasons
        return [("gpu-throttle", {"gpu": name, "reasons": list(reasons)})] if reasons != before else []
