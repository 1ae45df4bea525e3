"""The alert path: transitions to groups, groups to notifications, notifications to channels.

``router`` runs in one transaction, ``sender`` sends with one task per channel, and ``alertmanager_sync``
keeps Alertmanagers up to date.
"""
