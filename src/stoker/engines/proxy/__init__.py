"""TCP and UDP proxies in front of the replicas of a service, and ports on this machine."""
