"""HTTP: a table of endpoints, and one package per family that translates between its words and ours."""
