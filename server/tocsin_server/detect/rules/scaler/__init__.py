"""Rules for the loss scale of mixed-precision training."""
