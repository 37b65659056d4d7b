"""The shim: the process of a pod that starts the command, writes its log, records its end and kills its process tree.

A thousand of them run at once, so they import only C modules and each other. `launch.main` is the entry.
"""
