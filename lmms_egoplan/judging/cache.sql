-- Schema of the database of judgements. See cache.py.

CREATE TABLE IF NOT EXISTS judgements (
    key TEXT PRIMARY KEY,
    prompt TEXT NOT NULL,
    reply TEXT NOT NULL,
    rating REAL NOT NULL,
    model TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    seconds REAL,
    time TEXT NOT NULL,
    finish TEXT
);

CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY,
    prompt TEXT NOT NULL,
    reply TEXT NOT NULL,
    model TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    seconds REAL,
    time TEXT NOT NULL,
    finish TEXT
);

CREATE TABLE IF NOT EXISTS failures (
    key TEXT PRIMARY KEY,
    error TEXT NOT NULL,
    reply TEXT,
    model TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    max_tokens INTEGER NOT NULL,
    finish TEXT,
    time REAL NOT NULL
);

CREATE TABLE IF NOT EXISTS claims (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    expires REAL NOT NULL
);

-- Prompts in a batch without a stored outcome. `owner` is the token in the batch's metadata. `batch`
-- is null until the endpoint has confirmed the batch.
CREATE TABLE IF NOT EXISTS batches (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    batch TEXT,
    time REAL NOT NULL
);
