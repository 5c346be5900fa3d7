"""The roles that the use cases need somebody to play."""
