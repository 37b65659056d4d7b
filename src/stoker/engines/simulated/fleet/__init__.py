"""The simulated nodes, GPU models and fault schedule."""
