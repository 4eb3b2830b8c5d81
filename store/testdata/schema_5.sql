-- The whole schema as it is today. store.Open creates it in a new file; an older
-- file reaches it through the steps in store/migrate.go, and a test compares the
-- two. PRAGMA user_version is set by the store, not here.
--
-- Times are unix milliseconds unless the column says otherwise, hashes are BLOBs
-- of 32 bytes and addresses of 20, integers are at most 2^53-1. Agents, streams
-- and batches are never deleted, so their ids count from 1 without a hole.

-- Small facts of the application, such as the network a node belongs to.
CREATE TABLE meta (
	key   TEXT NOT NULL PRIMARY KEY,
	value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One row a key that ever had a batch stored. The counters are kept with the
-- rows that they count, in the same transaction.
CREATE TABLE agent (
	id           INTEGER PRIMARY KEY,
	address      BLOB NOT NULL UNIQUE CHECK (length(address) = 20),
	first_seen   INTEGER NOT NULL,
	last_seen    INTEGER NOT NULL, -- of the last stored batch
	streams      INTEGER NOT NULL,
	batches      INTEGER NOT NULL,
	steps        INTEGER NOT NULL, -- sum over streams of highest toSeq + 1, gaps included
	opened       INTEGER NOT NULL, -- distinct steps with at least one opened field
	evidence     INTEGER NOT NULL, -- stored equivocations
	quota        BLOB NOT NULL,    -- batches a 10 minutes of the last 24 hours, see quota.go
	reveal_day   INTEGER NOT NULL, -- days since 1970 of reveal_bytes
	reveal_bytes INTEGER NOT NULL  -- published on that day
) STRICT;
CREATE INDEX agent_by_seen ON agent (last_seen, id);

-- One row an (agent, stream). A batch that continues its stream leaves the row as
-- it is: the head of a stream is its batch with the highest index, which in a
-- consistent history also has the highest toSeq.
CREATE TABLE stream (
	id         INTEGER PRIMARY KEY,
	agent_id   INTEGER NOT NULL REFERENCES agent (id),
	name       TEXT NOT NULL,
	first_seen INTEGER NOT NULL,
	missing    INTEGER NOT NULL, -- batches below the highest index that are not stored
	filled_at  INTEGER NOT NULL, -- when a missing one came last, 0 if none did
	UNIQUE (agent_id, name)
) STRICT;

-- Runs of batches that are missing between stored ones, with the steps they hold.
CREATE TABLE gap (
	stream_id   INTEGER NOT NULL REFERENCES stream (id),
	first_index INTEGER NOT NULL,
	last_index  INTEGER NOT NULL,
	first_seq   INTEGER NOT NULL,
	last_seq    INTEGER NOT NULL,
	PRIMARY KEY (stream_id, first_index)
) STRICT, WITHOUT ROWID;

-- Signed statements in storage order. A row is never changed: position counts
-- from 1 without a hole. (stream_id, idx) makes the id unique, for the id is a
-- hash of the header; the look-up by id goes through its first eight bytes,
-- which keeps that index, whose keys arrive in random order, small.
CREATE TABLE batch (
	position    INTEGER PRIMARY KEY,
	stream_id   INTEGER NOT NULL,
	idx         INTEGER NOT NULL,
	from_seq    INTEGER NOT NULL,
	to_seq      INTEGER NOT NULL,
	created_at  INTEGER NOT NULL, -- unix seconds, as signed
	received_at INTEGER NOT NULL,
	anchor_by   INTEGER NOT NULL, -- unix seconds
	id_key      INTEGER NOT NULL, -- the first eight bytes of id, big endian
	scheme      INTEGER NOT NULL, -- 0 eip712, 1 eip191
	id          BLOB NOT NULL,
	prev_head   BLOB NOT NULL,
	head        BLOB NOT NULL,
	root        BLOB NOT NULL,
	signature   BLOB NOT NULL,
	UNIQUE (stream_id, idx)
) STRICT;
CREATE INDEX batch_by_id ON batch (id_key);

-- One signature over the receipts of a commit group, which are those of the
-- batches at first_position and after. root is null where the receipt is signed
-- by itself.
CREATE TABLE receipt_group (
	first_position INTEGER PRIMARY KEY,
	size           INTEGER NOT NULL,
	node           BLOB NOT NULL,
	root           BLOB,
	signature      BLOB NOT NULL
) STRICT;

-- Contradictions that prove themselves, one an (agent, stream, index).
CREATE TABLE evidence (
	id        INTEGER PRIMARY KEY,
	agent_id  INTEGER NOT NULL REFERENCES agent (id),
	stream_id INTEGER NOT NULL REFERENCES stream (id),
	idx       INTEGER NOT NULL,
	reason    TEXT NOT NULL,
	json      BLOB NOT NULL,
	at        INTEGER NOT NULL,
	UNIQUE (stream_id, idx)
) STRICT;
CREATE INDEX evidence_by_agent ON evidence (agent_id, id);

-- Anchors. An epoch holds the batches from first_position to last_position, and
-- the epochs together hold every position from 1 on without a hole.
CREATE TABLE epoch (
	id              INTEGER PRIMARY KEY,
	root            BLOB NOT NULL UNIQUE,
	first_position  INTEGER NOT NULL,
	last_position   INTEGER NOT NULL UNIQUE,
	created_at      INTEGER NOT NULL,
	chain_id        INTEGER NOT NULL,
	state           TEXT NOT NULL CHECK (state IN ('pending', 'included', 'safe', 'final', 'orphaned', 'failed')),
	state_at        INTEGER NOT NULL,
	tx_hash         BLOB, -- from here on: null until the transaction is in a block
	block_number    INTEGER,
	block_hash      BLOB,
	block_time      INTEGER, -- unix seconds
	eas             BLOB,
	schema_uid      BLOB,
	attestation_uid BLOB,
	attester        BLOB
) STRICT;
CREATE INDEX epoch_open ON epoch (id) WHERE state <> 'final';

-- Every state that an epoch was ever in.
CREATE TABLE epoch_event (
	id       INTEGER PRIMARY KEY,
	epoch_id INTEGER NOT NULL REFERENCES epoch (id),
	state    TEXT NOT NULL,
	at       INTEGER NOT NULL,
	note     TEXT NOT NULL
) STRICT;
CREATE INDEX epoch_event_by_epoch ON epoch_event (epoch_id, id);

-- Every transaction that was ever signed for an epoch, its raw bytes included:
-- after a crash the same bytes are sent again.
CREATE TABLE epoch_tx (
	id         INTEGER PRIMARY KEY,
	epoch_id   INTEGER NOT NULL REFERENCES epoch (id),
	chain_id   INTEGER NOT NULL,
	sender     BLOB NOT NULL,
	nonce      INTEGER NOT NULL,
	hash       BLOB NOT NULL UNIQUE,
	raw        BLOB NOT NULL,
	gas_limit  INTEGER NOT NULL,
	gas_used   INTEGER, -- null until known
	created_at INTEGER NOT NULL,
	sent_at    INTEGER, -- null until a node took it
	error      TEXT NOT NULL -- of the last attempt to send, empty where it went well
) STRICT;
CREATE INDEX epoch_tx_by_epoch ON epoch_tx (epoch_id, id);
CREATE INDEX epoch_tx_by_nonce ON epoch_tx (chain_id, sender, nonce);
CREATE INDEX epoch_tx_by_time ON epoch_tx (created_at);

-- Opened steps: proven to be in a stored batch, with the verdict on their claim.
CREATE TABLE step (
	id            INTEGER PRIMARY KEY,
	hash          BLOB NOT NULL UNIQUE,
	agent_id      INTEGER NOT NULL REFERENCES agent (id),
	stream_id     INTEGER NOT NULL REFERENCES stream (id),
	seq           INTEGER NOT NULL,
	position      INTEGER NOT NULL REFERENCES batch (position),
	at            INTEGER NOT NULL, -- as recorded by the agent
	opened_at     INTEGER NOT NULL,
	opened        INTEGER NOT NULL, -- bit n: flight.Fields[n] was opened at least once
	record        BLOB NOT NULL,    -- canonical JSON of the step
	proof         BLOB NOT NULL,    -- JSON of its Merkle proof in the batch
	chain_id      INTEGER,
	tx_hash       BLOB,
	claim_kind    TEXT NOT NULL,    -- empty where no claim was opened
	state         TEXT NOT NULL CHECK (state IN ('confirmed', 'contradicted', 'unverifiable')),
	reason        TEXT NOT NULL,
	checks        BLOB NOT NULL,    -- JSON
	checked_at    INTEGER NOT NULL,
	final         INTEGER NOT NULL,
	self_transfer INTEGER NOT NULL,
	zero_amount   INTEGER NOT NULL,
	late          INTEGER NOT NULL,
	block_number  INTEGER,
	block_hash    BLOB,
	counterparty  BLOB,
	UNIQUE (stream_id, seq)
) STRICT;
CREATE INDEX step_by_agent ON step (agent_id, id);
CREATE INDEX step_by_state ON step (agent_id, state, id);
CREATE INDEX step_by_tx ON step (chain_id, tx_hash, id) WHERE tx_hash IS NOT NULL;
-- Blocks of final verdicts, to be held against the chain after a reorganisation.
CREATE INDEX step_final ON step (chain_id, block_number, block_hash) WHERE final = 1;

-- Field values that are kept: the opened claim always, others where the agent
-- published them.
CREATE TABLE opening (
	step_id INTEGER NOT NULL REFERENCES step (id),
	field   TEXT NOT NULL,
	doc     BLOB NOT NULL, -- canonical JSON {salt, value}
	at      INTEGER NOT NULL,
	PRIMARY KEY (step_id, field)
) STRICT, WITHOUT ROWID;

-- How the steps of one agent about one transaction were judged, by claim kind and
-- (kind '') in all. The state of the transaction follows from the counts: one
-- contradicted record decides.
CREATE TABLE claim_tx (
	agent_id      INTEGER NOT NULL REFERENCES agent (id),
	chain_id      INTEGER NOT NULL,
	tx_hash       BLOB NOT NULL,
	kind          TEXT NOT NULL,
	confirmed     INTEGER NOT NULL,
	contradicted  INTEGER NOT NULL,
	unverifiable  INTEGER NOT NULL,
	self_transfer INTEGER NOT NULL,
	zero_amount   INTEGER NOT NULL,
	late          INTEGER NOT NULL,
	PRIMARY KEY (agent_id, chain_id, tx_hash, kind)
) STRICT, WITHOUT ROWID;

-- Distinct transactions of an agent by outcome, the sums over claim_tx. dev is 1
-- for the development chain, whose verdicts enter no public rating.
CREATE TABLE tally (
	agent_id       INTEGER NOT NULL REFERENCES agent (id),
	dev            INTEGER NOT NULL,
	kind           TEXT NOT NULL,
	confirmed      INTEGER NOT NULL,
	contradicted   INTEGER NOT NULL,
	unverifiable   INTEGER NOT NULL,
	self_transfer  INTEGER NOT NULL,
	zero_amount    INTEGER NOT NULL,
	late           INTEGER NOT NULL,
	counterparties INTEGER NOT NULL,
	PRIMARY KEY (agent_id, dev, kind)
) STRICT, WITHOUT ROWID;

-- Whom an agent's judged claims name, with the number of steps that do.
CREATE TABLE counterparty (
	agent_id INTEGER NOT NULL REFERENCES agent (id),
	dev      INTEGER NOT NULL,
	kind     TEXT NOT NULL,
	address  BLOB NOT NULL,
	steps    INTEGER NOT NULL,
	PRIMARY KEY (agent_id, dev, kind, address)
) STRICT, WITHOUT ROWID;

-- Transactions to look at again. agent_id is whose claim asked first.
CREATE TABLE recheck (
	chain_id INTEGER NOT NULL,
	tx_hash  BLOB NOT NULL,
	agent_id INTEGER NOT NULL REFERENCES agent (id),
	first_at INTEGER NOT NULL,
	due_at   INTEGER NOT NULL,
	attempts INTEGER NOT NULL,
	done_at  INTEGER, -- null while open
	PRIMARY KEY (chain_id, tx_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX recheck_open ON recheck (agent_id, due_at) WHERE done_at IS NULL;

-- Re-executions of transactions, one a (chain, transaction, prefix). The states and
-- what leads from one to the next are in store/replay.go.
CREATE TABLE replay (
	id         INTEGER PRIMARY KEY,
	chain_id   INTEGER NOT NULL,
	tx_hash    BLOB NOT NULL,
	prefix     TEXT NOT NULL,
	step       BLOB NOT NULL,    -- hash of the step that asked first
	state      TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
	attempts   INTEGER NOT NULL, -- runs begun since it was queued
	summary    BLOB,             -- JSON, what lists show of done and failed
	result     BLOB,             -- JSON, all of it
	at         INTEGER NOT NULL, -- when it was queued
	started_at INTEGER,          -- the last run
	done_at    INTEGER,
	UNIQUE (chain_id, tx_hash, prefix)
) STRICT;
CREATE INDEX replay_by_time ON replay (at);
CREATE INDEX replay_by_state ON replay (state, at);

-- The last runs of each cron job.
CREATE TABLE cron_run (
	id         INTEGER PRIMARY KEY,
	job        TEXT NOT NULL,
	started_at INTEGER NOT NULL,
	ended_at   INTEGER NOT NULL,
	note       TEXT NOT NULL,
	error      TEXT NOT NULL -- empty where the run went well
) STRICT;
CREATE INDEX cron_run_by_job ON cron_run (job, id);
