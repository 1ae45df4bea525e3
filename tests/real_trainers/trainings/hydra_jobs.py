"""A script with Hydra that does not mention tocsin: ``hydra_jobs.py [-m] lr=0.1[,0.2] [fails_with=0.2]``.

``data`` is missing, ``home`` refers to what is not there, and both are no error until the script reads them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import hydra
import torch
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig


@dataclass
class Model:
    """A nested section."""

    width: int = 4
    name: str = "net-${.width}"


@dataclass
class Config:
    """The configuration."""

    model: Model = field(default_factory=Model)
    lr: float = 0.1
    twice: list[float] = field(default_factory=lambda: [1.0, "${lr}"])  # type: ignore[list-item]
    max_steps: int = 6
    fails_with: float = 0.0
    data: str = MISSING
    home: str = "${oc.env:NO_SUCH_VARIABLE}"


ConfigStore.instance().store(name="config", node=Config)


@hydra.main(version_base="1.3", config_name="config")  # type: ignore[untyped-decorator]
def main(settings: DictConfig) -> None:
    """Train one job in a folder of its output."""
    net = torch.nn.Linear(settings.model.width, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=settings.lr)
    for step in range(settings.max_steps):
        net(torch.ones(8, settings.model.width)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 3 and settings.lr == settings.fails_with:
            raise ValueError("no more data")
    print("trained in", os.path.basename(os.getcwd()))


if __name__ == "__main__":
    main()
