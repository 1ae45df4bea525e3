"""Rules for the loss."""
