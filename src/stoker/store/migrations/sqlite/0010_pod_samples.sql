-- What pods take of their node and what inference servers say of themselves: ticks of the open hour, and hours by pod.
CREATE TABLE pod_tick (
    cluster_id TEXT NOT NULL,
    stripe INTEGER NOT NULL,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (cluster_id, stripe, at, source)
) STRICT;
CREATE INDEX pod_tick_age ON pod_tick (cluster_id, at, stripe);

CREATE TABLE pod_hour (
    pod_uid TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (pod_uid, hour_at)
) STRICT;
CREATE INDEX pod_hour_age ON pod_hour (hour_at);
