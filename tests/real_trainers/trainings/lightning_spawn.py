"""Lightning's ``ddp_spawn``: the children import this file, and only the parent watches: ``FILE NAME``."""

from __future__ import annotations

import sys

import tocsin  # at the top: a child that does not import it reports nothing
from tests.real_trainers.trainings.cases import OwnLog
from tests.real_trainers.trainings.lightning_fit import train

if __name__ == "__main__":
    with tocsin.watch("real-trainers", name=sys.argv[1]):
        train("spawned", OwnLog())
