"""Candidate causes and remedies of an episode."""
