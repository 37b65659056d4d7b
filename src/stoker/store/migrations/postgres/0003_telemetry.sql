-- What the hardware said, what it looks like now, and what training code printed about itself.
CREATE TABLE roster (
    id BIGINT PRIMARY KEY,
    cluster_id TEXT COLLATE "C" NOT NULL REFERENCES cluster (id),
    sha256 TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    body BYTEA NOT NULL
);
CREATE UNIQUE INDEX roster_of_cluster ON roster (cluster_id, sha256);

CREATE TABLE sample_tick (
    cluster_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    roster_id BIGINT NOT NULL,
    PRIMARY KEY (cluster_id, at)
);

CREATE TABLE sample_stripe (
    cluster_id TEXT COLLATE "C" NOT NULL,
    first_gpu BIGINT NOT NULL,
    at BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (cluster_id, first_gpu, at)
);
CREATE INDEX sample_stripe_age ON sample_stripe (cluster_id, at);

CREATE TABLE sample_segment (
    id BIGINT PRIMARY KEY,
    cluster_id TEXT COLLATE "C" NOT NULL,
    hour_at BIGINT NOT NULL,
    roster_id BIGINT NOT NULL,
    ticks BIGINT NOT NULL,
    times BYTEA NOT NULL,
    chunk_gpus BIGINT NOT NULL,
    sealed_at BIGINT
);
CREATE INDEX sample_segment_of_cluster ON sample_segment (cluster_id, hour_at, roster_id);
CREATE INDEX sample_segment_open ON sample_segment (cluster_id) WHERE sealed_at IS NULL;
CREATE INDEX sample_segment_age ON sample_segment (hour_at);

CREATE TABLE sample_chunk (
    segment_id BIGINT NOT NULL REFERENCES sample_segment (id) ON DELETE CASCADE,
    first_gpu BIGINT NOT NULL,
    gpus BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (segment_id, first_gpu)
);

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
