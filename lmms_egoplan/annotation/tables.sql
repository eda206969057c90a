-- The tables of a database of labels. Increase _FORMAT in database.py when they change.

CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, team TEXT NOT NULL, token TEXT NOT NULL UNIQUE, called TEXT UNIQUE
) WITHOUT ROWID;
CREATE TABLE items (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, part TEXT NOT NULL, shown TEXT NOT NULL, hidden TEXT NOT NULL,
    known TEXT, initial TEXT
);
CREATE INDEX items_of_part ON items (part);
-- The items of each round with a sample. Other rounds have all items of the part 'main'.
CREATE TABLE samples (
    stage TEXT NOT NULL, item INTEGER NOT NULL REFERENCES items, PRIMARY KEY (stage, item)
) WITHOUT ROWID;

-- An item that one person labels in one stage. Everything that is counted is a number of these rows.
CREATE TABLE slots (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    item INTEGER NOT NULL REFERENCES items,
    stage TEXT NOT NULL,
    person TEXT NOT NULL REFERENCES people,
    -- 'aside': the label sets its item aside, so that later rounds need none
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'labelled', 'aside', 'skipped', 'released')),
    -- those of the last label, even if it was withdrawn
    "values" TEXT,
    comment TEXT NOT NULL DEFAULT '',
    seconds REAL,
    -- why the item is skipped
    reason TEXT,
    -- when the last label or skip was saved
    at TEXT,
    -- number of the last row in history
    last INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX slots_of_stage ON slots (stage, item, state, person);
CREATE INDEX slots_of_person ON slots (person, state, stage);
CREATE UNIQUE INDEX live_slots ON slots (item, person, stage) WHERE state != 'released';

-- Everything that was saved, in this order: labels, skips (without values), and withdrawals (without values and reason).
-- Rows are only appended.
CREATE TABLE history (
    id INTEGER PRIMARY KEY AUTOINCREMENT, slot INTEGER NOT NULL REFERENCES slots, form TEXT NOT NULL,
    "values" TEXT, comment TEXT NOT NULL, seconds REAL, reason TEXT, at TEXT NOT NULL
);
CREATE INDEX history_of ON history (slot);
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, person TEXT NOT NULL REFERENCES people, senior TEXT NOT NULL,
    passed INTEGER NOT NULL, comment TEXT NOT NULL, at TEXT NOT NULL
);

-- Labels that count, unless their person has failed the qualification.
CREATE VIEW labelled AS SELECT * FROM slots WHERE state IN ('labelled', 'aside');
CREATE VIEW decided AS SELECT item FROM slots WHERE stage = 'adjudication' AND state = 'labelled';
CREATE VIEW failed AS
    SELECT DISTINCT person FROM verdicts WHERE NOT passed AND id = (
        SELECT max(id) FROM verdicts AS own WHERE own.person = verdicts.person AND own.senior = verdicts.senior
    );
CREATE VIEW valid AS SELECT * FROM labelled WHERE person NOT IN (SELECT person FROM failed);
CREATE VIEW taken AS
    SELECT * FROM slots
    WHERE state IN ('open', 'labelled', 'aside') AND person NOT IN (SELECT person FROM failed);
