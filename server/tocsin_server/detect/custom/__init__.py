"""Custom rules and changed settings of built-in rules."""
