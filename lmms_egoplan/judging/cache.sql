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

-- A reply deletes failures and claims of its prompt; a failure deletes claims. All delete the prompt
-- from its batch, in separate triggers, because databases of earlier versions have the others.
CREATE TRIGGER IF NOT EXISTS rated AFTER INSERT ON judgements BEGIN
    DELETE FROM failures WHERE key = NEW.key;
    DELETE FROM claims WHERE key = NEW.key;
END;

CREATE TRIGGER IF NOT EXISTS replied AFTER INSERT ON replies BEGIN
    DELETE FROM failures WHERE key = NEW.key;
    DELETE FROM claims WHERE key = NEW.key;
END;

CREATE TRIGGER IF NOT EXISTS failed AFTER INSERT ON failures BEGIN
    DELETE FROM claims WHERE key = NEW.key;
END;

CREATE TRIGGER IF NOT EXISTS rated_in_batch AFTER INSERT ON judgements BEGIN
    DELETE FROM batches WHERE key = NEW.key;
END;

CREATE TRIGGER IF NOT EXISTS replied_in_batch AFTER INSERT ON replies BEGIN
    DELETE FROM batches WHERE key = NEW.key;
END;

CREATE TRIGGER IF NOT EXISTS failed_in_batch AFTER INSERT ON failures BEGIN
    DELETE FROM batches WHERE key = NEW.key;
END;
