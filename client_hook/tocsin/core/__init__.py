"""Values, names and identities that every other package uses. Imports no torch and opens no connection."""
