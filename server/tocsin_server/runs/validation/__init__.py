"""Validate what training processes send. Pure: messages and limits in, valid data and rejections out.

Every rejection says what was expected and what was sent. One invalid column, step or event never affects the
others. ``message`` is the entry for every message after the handshake, ``handshake`` for the first.
"""
