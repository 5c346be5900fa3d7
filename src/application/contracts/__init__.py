"""Contract suites: what an adapter of a port must do, as tests that ship with the program.

A suite is a class of test methods without any test framework. An adapter's tests inherit it and supply the subject; a
framework such as pytest collects and runs them. Row locking is a chapter of its own: a store without row locks leaves
it out, and says so.
"""
