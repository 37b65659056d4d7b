-- What pods take of their node and what inference servers say of themselves: ticks of the open hour, and hours by pod.
CREATE TABLE pod_tick (
    cluster_id TEXT COLLATE "C" NOT NULL,
    stripe BIGINT NOT NULL,
    at BIGINT NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (cluster_id, stripe, at, source)
);
CREATE INDEX pod_tick_age ON pod_tick (cluster_id, at, stripe);

CREATE TABLE pod_hour (
    pod_uid TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (pod_uid, hour_at)
);
CREATE INDEX pod_hour_age ON pod_hour (hour_at);
