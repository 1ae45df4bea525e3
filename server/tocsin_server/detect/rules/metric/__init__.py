"""Rules for evaluation metrics."""
