"""Ids from the uuid-utils library."""
