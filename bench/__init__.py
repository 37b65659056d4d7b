"""What Stoker costs on this machine: `python -m bench [NAME…]`."""
