"""The Run:ai compatible family: the vendor's client works unmodified."""
