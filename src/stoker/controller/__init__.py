"""The loops that keep what Stoker knows true."""
