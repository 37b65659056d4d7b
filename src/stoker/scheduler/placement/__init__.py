"""Gang packing, and preemption with its dry run.

All replicas of a gang are placed, or none.
"""
