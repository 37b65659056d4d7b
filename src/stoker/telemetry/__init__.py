"""What the hardware does: where readings come from, how samples are kept and read back, and what training logs say.

Nothing here decides anything about workloads, and nothing here may hold anybody up.
"""
