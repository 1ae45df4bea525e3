"""Training scripts as a user would write them; tocsin is one call in each."""
