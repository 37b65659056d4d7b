"""What runs inside a pod's shim: it starts the command, writes its output and its end, and kills its whole tree.

A thousand of these run at once, so they import C modules and each other, nothing else. `launch.main` is the door.
"""
