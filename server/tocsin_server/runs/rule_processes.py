"""Start the processes that evaluate rules, restart those that end, and choose one for each run.

By default, the server evaluates the rules itself until they take :data:`BUSY` of a core, so that small
installations need no memory for another process. Then it starts processes for the cores that it has, and all
runs move there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from tocsin_server.detect.engine.plan import EVERY
from tocsin_server.runs.cores import cores
from tocsin_server.runs.rule_process import RuleProcess, RuleProcessError

log = logging.getLogger("tocsin.rules")

AUTOMATIC = -1
BUSY = 0.25
"""Share of a core that the rules take, above which processes are worth their memory."""
BUSY_LOOKS = 3
"""Number of looks in a row, one per second, that must find this share."""
MOST = 2
"""Most processes that are started automatically: the event loop needs half as much CPU time as the rules."""
LIVES, LIFE_S = 3, 60.0
"""After this many ends within so many seconds, or failed starts in a row, the server evaluates the rules."""
UNEVEN_S = 0.1
"""Difference of load between two processes from which runs move, which is 0.1 of a core."""
EVEN_LOOKS = 3
"""Runs move at most at every third look, because their load is then known."""
HANGS, RAISES = 2, 3
"""A rule in which a process hung, or that raised, this often on the same run is disabled for this run."""
PAUSE_S = 0.5
"""Pause before a process is started again, times the number of recent ends."""


class RuleProcesses:
    """The processes of one server. Used on the event loop."""

    def __init__(self, setting: int, *, command: Sequence[str] = ()) -> None:
        """Create it without processes.

        Args:
            setting: The number of processes, or :data:`AUTOMATIC`.
            command: What to run instead of the program of a rule process.
        """
        self.restarts = 0
        self.problem: str | None = None
        """Why no more processes are started."""
        self._setting = setting
        self._command = command
        self._wanted = 0
        self._live: list[RuleProcess] = []
        self._children: set[RuleProcess] = set()
        """Those that may not have ended."""
        self._ends: list[float] = []
        self._hangs: Counter[tuple[str, str]] = Counter()
        """How often a process hung, by run and rule."""
        self._raises: Counter[tuple[str, str]] = Counter()
        """How often a rule raised, by run and rule."""
        self._starting: asyncio.Task[None] | None = None
        self._stopping = False
        self._busy_looks = 0
        self._even_looks = 0

    @property
    def live(self) -> Sequence[RuleProcess]:
        """The processes that evaluate rules now."""
        return self._live

    def start(self) -> None:
        """Start the number of processes that was set, in the background."""
        if self._setting > 0:
            self._want(self._setting)

    def look(self, share: float) -> bool:
        """Start processes if the rules need them, and end hanging ones; return whether runs may have to move.

        Args:
            share: Time that the rules took since the last look, as a share of a core.
        """
        if self._setting == AUTOMATIC and not self._wanted and self.problem is None:
            self._busy_looks = self._busy_looks + 1 if share >= BUSY else 0
            if self._busy_looks >= BUSY_LOOKS and cores() > 1:
                self._want(min(cores() - 1, MOST))
        for process in self._live:
            process.forget()
            if not process.is_hanging():
                process.hangs = False
            elif process.hangs:
                self._replace(process)
            else:
                process.ask_where()
        return bool(self._live)

    def _replace(self, process: RuleProcess) -> None:
        """End a hanging process, and note the rule in which it hangs."""
        log.error("Rule process %s does not answer, so it is replaced.", process.pid)
        hang = process.hang()
        process.kill()
        if hang is None:
            return
        self._hangs[hang] += 1
        if self._hangs[hang] == HANGS:
            run, rule = hang
            log.error(
                "%s evaluated no more for run %s until the server restarts: a process hung in it %d times.",
                "The rules are" if rule == EVERY else f"Rule {rule} is",
                run,
                HANGS,
            )

    def raised(self, run_id: str, rules: Sequence[str]) -> bool:
        """Count rules that raised; return whether one of them is disabled from now on."""
        disabled = False
        for rule in rules:
            self._raises[run_id, rule] += 1
            if self._raises[run_id, rule] == RAISES:
                disabled = True
                log.error(
                    "Rule %s is evaluated no more for run %s until the server restarts: it raised %d times.",
                    rule,
                    run_id,
                    RAISES,
                )
        return disabled

    @property
    def disabled(self) -> list[tuple[str, str]]:
        """The runs and rules that are disabled because they hang or raise; EVERY for all rules."""
        hang = {one for one, times in self._hangs.copy().items() if times >= HANGS}
        return sorted(hang | {one for one, times in self._raises.copy().items() if times >= RAISES})

    def barred(self, run_id: str) -> frozenset[str]:
        """Return the rules that are disabled for a run because they hang or raise; EVERY for all."""
        return frozenset(rule for run, rule in self.disabled if run == run_id)

    async def choose(self) -> RuleProcess | None:
        """Return the process for another run, or None if the server should evaluate its rules itself.

        If all processes have ended, it waits until one is started again.
        """
        while not self._live and self._starting is not None:
            await asyncio.wait([self._starting])
            await asyncio.sleep(0)
        return self.least_loaded()

    def least_loaded(self) -> RuleProcess | None:
        """Return the process whose rules took least time recently, or None without processes."""
        return min(self._live, key=lambda process: (process.load, len(process.held)), default=None)

    def uneven(self) -> list[str]:
        """Return the runs that should move to the least loaded process, if the loads differ much."""
        self._even_looks += 1
        least, most = self.least_loaded(), max(self._live, key=lambda process: process.load, default=None)
        if self._even_looks % EVEN_LOOKS or least is None or most is None:
            return []
        gap, moving = most.load - least.load, []
        busy = [(most.busy_s.get(key, 0.0), run) for key, run in most.held.copy().items()]
        for took, run in sorted(busy, reverse=True):
            if gap >= UNEVEN_S and 0.0 < took < gap:
                gap -= 2 * took
                moving.append(run)
        return moving

    async def stop(self) -> None:
        """End all processes and wait for them."""
        self._stopping = True
        if self._starting is not None:
            self._starting.cancel()
            with suppress(asyncio.CancelledError):
                await self._starting
        for process in list(self._live):
            await process.close()
        await asyncio.gather(*(asyncio.to_thread(process.wait) for process in self._children))

    def _want(self, number: int) -> None:
        self._wanted = number
        if self._starting is None and not self._stopping:
            self._starting = asyncio.create_task(self._start_missing(), name="rule processes")
            self._starting.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[None]) -> None:
        self._starting = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._give_up(repr(error))
        if len(self._live) < self._wanted:
            self._want(self._wanted)

    async def _start_missing(self) -> None:
        failed = 0
        while len(self._live) < self._wanted:
            self._ends = [ended for ended in self._ends if time.monotonic() - ended < LIFE_S]
            if len(self._ends) >= LIVES:
                self._give_up("they ended repeatedly")
                return
            await asyncio.sleep(PAUSE_S * (len(self._ends) + failed))
            try:
                self._live.append(await self._started_process())
            except RuleProcessError as error:
                failed += 1  # in a row, however long each start takes
                if failed == LIVES:
                    self._give_up(str(error))
                    return

    async def _started_process(self) -> RuleProcess:
        process = RuleProcess(self._ended)
        await process.start(self._command)
        self._children.add(process)
        if not process.alive:
            raise RuleProcessError("it ended as soon as it was ready")
        return process

    def _give_up(self, reason: str) -> None:
        self._wanted, self.problem = 0, reason
        log.error("Rule processes cannot run: %s. The server evaluates the rules itself.", reason)

    def _ended(self, process: RuleProcess) -> None:
        if process not in self._live:
            return
        self._live.remove(process)
        if self._stopping:
            return
        self._children.discard(process)
        asyncio.get_running_loop().run_in_executor(None, process.wait)
        self.restarts += 1
        if not process.hangs:
            self._ends.append(time.monotonic())
        log.warning("Rule process %s ended; the rules of its runs are loaded again.", process.pid)
        self._want(self._wanted)


def share_of_core() -> Callable[[float], float]:
    """Return a function from a growing total of seconds to the share of a core since its last call.

    The share is at most that of this thread: on a busy machine, rules take long without using a core.
    """
    before = [0.0, time.monotonic(), time.thread_time()]

    def share(seconds: float) -> float:
        now = [seconds, time.monotonic(), time.thread_time()]
        took, passed, used = (new - old for new, old in zip(now, before, strict=True))
        before[:] = now
        return min(took, used) / max(passed, 1e-3)

    return share
