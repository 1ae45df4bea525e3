"""The run that a training script uses, and how it starts."""
