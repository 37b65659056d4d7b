-- What the hardware said, what it looks like now, and what training code printed about itself.
CREATE TABLE roster (
    id BIGINT PRIMARY KEY,
    cluster_id TEXT COLLATE "C" NOT NULL REFERENCES cluster (id),
    created_at BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    body BYTEA NOT NULL
);
CREATE INDEX roster_of_cluster ON roster (cluster_id, id);

CREATE TABLE sample_tick (
    cluster_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    roster_id BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (cluster_id, at)
);

CREATE TABLE sample_chunk (
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    roster_id BIGINT NOT NULL,
    first_gpu BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    ticks BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, roster_id, first_gpu)
);
CREATE INDEX sample_chunk_age ON sample_chunk (hour_at);

CREATE TABLE live_view (
    cluster_id TEXT COLLATE "C" NOT NULL,
    part TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (cluster_id, part)
);

CREATE TABLE training_chunk (
    workload_uid TEXT COLLATE "C" NOT NULL,
    pod_uid TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    position BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    points BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (workload_uid, pod_uid, number)
);
CREATE INDEX training_chunk_age ON training_chunk (last_at);
