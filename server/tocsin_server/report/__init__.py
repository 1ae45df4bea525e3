"""A run, or several over one another, as one HTML file that needs neither a server nor a network."""
