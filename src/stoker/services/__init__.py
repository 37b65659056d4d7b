"""What can be done, one use-case a method: authorise, validate, commit once.

Services speak the domain's words; the API families translate to and from their own.
"""
