from collections.abc import Callable, Mapping
from typing import Any

class Tail:
    block: Any
    elsewhere: Callable[[Any, bool], None]
    plain: Callable[..., None]
    commit: int
    steps: int
    memory: Any
    @property
    def last_step(self) -> int | None: ...
    def logger(
        self,
        run: Any,
        reporter: Any,
        counter: Any,
        count: Callable[[int, tuple[str, ...]], None],
        take: Callable[[tuple[Any, ...], int | None, Mapping[str, Any]], None],
        clock: Callable[[], int],
        put: Callable[..., None],
        offset_ns: int,
        /,
    ) -> Callable[..., None]: ...
    def put(self, item: tuple[Any, ...], may_wait: bool = False, /) -> None: ...
