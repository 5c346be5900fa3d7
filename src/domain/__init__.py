"""What a session and a property-object view are, and the rule by which they close."""
