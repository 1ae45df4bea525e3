"""Rules for NaN and infinite values."""
