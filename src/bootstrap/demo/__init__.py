"""The demo: visitors, the real closer on a real PostgreSQL, and a screen that shows what happens.

Nothing in it is a stand-in but the visitors and the pace of the clock.
"""
