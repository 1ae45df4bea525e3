"""The machine and the files around a training: environment, git, metrics of the system, checkpoints."""
