"""The engines of this server, and the controllers of the clusters whose leases it holds."""
