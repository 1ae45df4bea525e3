"""Rules as documents that users write, and the packs of rules that come with the server."""
