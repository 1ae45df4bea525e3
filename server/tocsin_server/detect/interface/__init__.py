"""Inputs and outputs of a rule."""
