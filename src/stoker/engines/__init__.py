"""The engines that run pods. Each implements the protocol of `protocol.py` with the structs of `model.py`."""
