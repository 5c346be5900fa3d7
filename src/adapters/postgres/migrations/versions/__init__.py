"""The versions, one file each, in the order of their numbers.

A file has `revision`, `down_revision` and `upgrade(runner)`, and where a database may be unfit for the version,
`findings(catalog)`. Steps commit one by one, so a version leaves out what an interrupted run has done already (by
`if not exists`, or by asking the catalog). While a script is written, and for `findings`, the catalog shows the
database before the first pending version. A version that has been released is not changed any more.
"""
