"""HTTP: a table of endpoints, and one package for each API family, which translates between its wire format and the
domain."""
