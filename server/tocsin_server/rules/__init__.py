"""Rules as documents that users write, and the rule packs included with the server."""
