"""A tool that an agent can call: its name, arguments and the function that answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from .api import Api, ApiError
from .text import answer, block, quoted


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The arguments of a tool, checked and described by their types."""


@dataclass(frozen=True)
class Tool:
    """One tool. The docstring of ``arguments`` is the description that an agent reads.

    Attributes:
        name: The name of the tool.
        arguments: The type of its arguments.
        run: Returns the lines of the answer.
        writes: Whether it changes something on the server: it needs a token with scope write.
    """

    name: str
    arguments: type[Arguments]
    run: Callable[[Api, Any], Awaitable[list[str]]]
    writes: bool = False

    @property
    def description(self) -> str:
        """The description for agents."""
        return " ".join((self.arguments.__doc__ or "").split())

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        _, parts = msgspec.json.schema_components((self.arguments,), ref_template="{name}")
        schema = dict(parts[self.arguments.__name__])
        return {name: value for name, value in schema.items() if name not in ("title", "description")}

    async def call(self, api: Api, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the text of the answer, and whether it is an error."""
        try:
            given = msgspec.convert(dict(arguments), self.arguments, strict=False)
        except msgspec.ValidationError as error:
            text = str(error).replace("`$.", "`").replace("`$`", "the arguments")
            known = [
                f"{name} (required)" if name in self.schema.get("required", ()) else name
                for name in self.schema["properties"]
            ]
            lines = [f"The arguments of {self.name} are invalid. It takes {', '.join(known)}.", *block(text)]
            return answer(lines), True
        try:
            return answer(await self.run(api, given)), False
        except ApiError as error:
            return answer([f"Error: {quoted(str(error), 1000)}"]), True
