"""Puts the parts together: settings, container, worker, command line."""
