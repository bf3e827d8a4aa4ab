"""Quern beside its peers: see bench/run.py for the command, docs/performance.md for how to read what it prints."""
