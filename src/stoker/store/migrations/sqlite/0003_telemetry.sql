-- What the hardware said, what it looks like now, and what training code printed about itself.
CREATE TABLE roster (
    id INTEGER PRIMARY KEY,
    cluster_id TEXT NOT NULL REFERENCES cluster (id),
    sha256 TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX roster_of_cluster ON roster (cluster_id, sha256);

CREATE TABLE sample_tick (
    cluster_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    roster_id INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, at)
) STRICT;

CREATE TABLE sample_stripe (
    cluster_id TEXT NOT NULL,
    first_gpu INTEGER NOT NULL,
    at INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (cluster_id, first_gpu, at)
) STRICT;
CREATE INDEX sample_stripe_age ON sample_stripe (cluster_id, at);

CREATE TABLE sample_segment (
    id INTEGER PRIMARY KEY,
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    roster_id INTEGER NOT NULL,
    ticks INTEGER NOT NULL,
    times BLOB NOT NULL,
    chunk_gpus INTEGER NOT NULL,
    sealed_at INTEGER
) STRICT;
CREATE INDEX sample_segment_of_cluster ON sample_segment (cluster_id, hour_at, roster_id);
CREATE INDEX sample_segment_open ON sample_segment (cluster_id) WHERE sealed_at IS NULL;
CREATE INDEX sample_segment_age ON sample_segment (hour_at);

CREATE TABLE sample_chunk (
    segment_id INTEGER NOT NULL REFERENCES sample_segment (id) ON DELETE CASCADE,
    first_gpu INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (segment_id, first_gpu)
) STRICT;

CREATE TABLE live_view (
    cluster_id TEXT NOT NULL,
    part TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (cluster_id, part)
) STRICT;

CREATE TABLE training_chunk (
    workload_uid TEXT NOT NULL,
    pod_uid TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    position INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    points INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (workload_uid, pod_uid, number)
) STRICT;
CREATE INDEX training_chunk_age ON training_chunk (last_at);
