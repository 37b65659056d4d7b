-- What the hardware said, what it looks like now, and what training code printed about itself.
CREATE TABLE roster (
    id INTEGER PRIMARY KEY,
    cluster_id TEXT NOT NULL REFERENCES cluster (id),
    created_at INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX roster_of_cluster ON roster (cluster_id, id);

CREATE TABLE sample_tick (
    cluster_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    roster_id INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (cluster_id, at)
) STRICT;

CREATE TABLE sample_chunk (
    cluster_id TEXT NOT NULL,
    hour_at INTEGER NOT NULL,
    roster_id INTEGER NOT NULL,
    first_gpu INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    ticks INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (cluster_id, hour_at, roster_id, first_gpu)
) STRICT;
CREATE INDEX sample_chunk_age ON sample_chunk (hour_at);

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
