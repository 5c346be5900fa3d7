"""What the service does with the domain, in terms of ports only."""
