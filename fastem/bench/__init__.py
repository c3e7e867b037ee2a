"""How fast fastem is on this machine, and beside other libraries: ``fastem bench``.

A row of the table (:mod:`.rows`) is a task on a shape. The data, the start, and how fastem does it
are in a file for each model; how others do it, in a file for each of them (:mod:`.peers`).
"""
