"""Rules for the learning rate."""
