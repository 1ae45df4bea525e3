"""Delivery to the server: queue, sender thread, connection, acknowledgements, resending."""
