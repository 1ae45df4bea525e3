"""Rules over log files and stored runs: replay, diagnosis, backtests, incident snapshots."""
