"""The alert path: transitions to groups, groups to notifications, notifications to channels.

``routing`` runs in one transaction, ``courier`` sends with one task a channel, ``mirror`` keeps
Alertmanagers up to date, ``ping`` tells the outside that this server lives. Row 2.
"""
