"""The HTTP API: one file a resource, gathered here for app.py."""

from __future__ import annotations

from fastapi import APIRouter

from tocsin_server.api import alerts, events, health, projects, records, rules, runs, series, session, tokens

# Those with a longer path first: a run's id may hold a slash, so `/runs/{id}` takes what is left over.
routers: tuple[APIRouter, ...] = tuple(
    module.router
    for module in (series, records, events, runs, alerts, rules, projects, tokens, session, health)
)
