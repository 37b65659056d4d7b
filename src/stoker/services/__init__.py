"""The use cases, one method each: authorise, validate, commit once.

Services use domain names only; each API family translates them to its wire names.
"""
