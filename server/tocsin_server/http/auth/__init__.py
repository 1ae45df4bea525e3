"""Authentication: tokens, sessions, login, signed links."""
