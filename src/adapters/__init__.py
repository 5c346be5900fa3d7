"""One folder a technology; none knows another."""
