"""One scheduling cycle: its state, the pending queue of each workspace and the cursor on it, reservations.

The same snapshot always gives the same plan.
"""
