-- Why a workload waits as a word, beside the sentence; and the pool of a node, so that pods are found by it.
ALTER TABLE workload ADD COLUMN waiting_code TEXT NOT NULL DEFAULT '';
ALTER TABLE node ADD COLUMN pool TEXT NOT NULL DEFAULT '';
UPDATE node SET pool = COALESCE(json_extract(body, '$.pool'), 'default');
