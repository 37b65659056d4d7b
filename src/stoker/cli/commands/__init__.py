"""The commands of `stoker`, grouped by the sections of its help.

The registry names their modules; a module is imported when its command is called.
"""
