"""Each scenario is trained for every requested variant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.evaluation import VARIANTS, using


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add each variant, if there are several, to the test's name."""
    if len(VARIANTS) > 1:
        metafunc.parametrize("variant", VARIANTS, indirect=True, ids=str, scope="module")


@pytest.fixture(autouse=True, scope="module")
def variant(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the tests of a module for one variant after the other."""
    with using(getattr(request, "param", VARIANTS[0])):
        yield
