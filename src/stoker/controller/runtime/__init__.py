"""What the control loops are built on: lease and fencing, work queue, timers, dirty set."""
