"""How quickly sessions are closed, beside the limits that the database itself sets: `python -m bench`.

Every contender does the same complete work on the same server, each on a database of its own with the same rows, and
everything that it wrote is checked. Figures of different machines, or of different runs, say nothing beside each other.
"""
