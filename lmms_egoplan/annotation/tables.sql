-- The tables of a database of labels. Increase _FORMAT in database.py when they change.

CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, team TEXT NOT NULL, token TEXT NOT NULL UNIQUE, called TEXT UNIQUE,
    num_labelled INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE items (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, part TEXT NOT NULL, shown TEXT NOT NULL, hidden TEXT NOT NULL,
    known TEXT, initial TEXT
);
CREATE TABLE slots (
    id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL REFERENCES items, stage TEXT NOT NULL,
    person TEXT NOT NULL REFERENCES people, since TEXT NOT NULL, released TEXT, label INTEGER, skipped TEXT
);
CREATE UNIQUE INDEX live_slots ON slots (item, person, stage) WHERE released IS NULL;
CREATE INDEX gold_slots ON slots (person) WHERE stage = 'gold';
CREATE INDEX slots_by ON slots (person);
CREATE INDEX slots_of ON slots (person, label);
CREATE INDEX open_slots ON slots (person) WHERE label IS NULL AND skipped IS NULL AND released IS NULL;
CREATE INDEX slots_on ON slots (item, person);
CREATE INDEX qualifying ON slots (person) WHERE stage = 'qualification';
CREATE TABLE places (
    item INTEGER NOT NULL REFERENCES items, stage TEXT NOT NULL, part TEXT NOT NULL, after TEXT,
    needed INTEGER NOT NULL, taken INTEGER NOT NULL DEFAULT 0, given INTEGER NOT NULL DEFAULT 0,
    is_free INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL,
    PRIMARY KEY (item, stage)
) WITHOUT ROWID;
CREATE TABLE totals (stage TEXT PRIMARY KEY, needed INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER needed_at_INSERT AFTER INSERT ON places BEGIN
    INSERT INTO totals VALUES (NEW.stage, NEW.needed)
    ON CONFLICT (stage) DO UPDATE SET needed = needed + excluded.needed;
END;
CREATE TRIGGER needed_at_UPDATE AFTER UPDATE OF needed ON places BEGIN
    UPDATE totals SET needed = needed + NEW.needed - OLD.needed WHERE stage = NEW.stage;
END;
CREATE INDEX free_places ON places (stage, part, item) WHERE is_free;
CREATE TABLE labels (
    id INTEGER PRIMARY KEY AUTOINCREMENT, slot INTEGER NOT NULL REFERENCES slots, form TEXT NOT NULL,
    choices TEXT, comment TEXT NOT NULL, seconds REAL, at TEXT NOT NULL, skipped TEXT
);
CREATE INDEX labels_of ON labels (slot);
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, person TEXT NOT NULL REFERENCES people, senior TEXT NOT NULL,
    passed INTEGER NOT NULL, comment TEXT NOT NULL, at TEXT NOT NULL
);
CREATE VIEW counting AS
    SELECT labels.*, slots.item, slots.stage, slots.person FROM slots JOIN labels ON labels.id = slots.label;
CREATE VIEW decided AS SELECT item FROM counting WHERE stage = 'adjudication';
CREATE VIEW failed AS
    SELECT DISTINCT person FROM verdicts WHERE NOT passed AND id = (
        SELECT max(id) FROM verdicts AS own WHERE own.person = verdicts.person AND own.senior = verdicts.senior
    );
CREATE VIEW valid AS SELECT * FROM counting WHERE person NOT IN (SELECT person FROM failed);
CREATE VIEW taken AS
    SELECT * FROM slots WHERE released IS NULL AND skipped IS NULL AND person NOT IN (SELECT person FROM failed);
CREATE TRIGGER labelled AFTER INSERT ON labels BEGIN
    UPDATE slots SET label = iif(NEW.choices IS NULL, NULL, NEW.id), skipped = NEW.skipped WHERE id = NEW.slot;
END;
-- Labels of a person.
CREATE TRIGGER counted_at_UPDATE AFTER UPDATE OF label ON slots BEGIN
    UPDATE people SET num_labelled = num_labelled + (NEW.label IS NOT NULL) - (OLD.label IS NOT NULL)
    WHERE name = NEW.person;
END;
CREATE TRIGGER judged AFTER INSERT ON verdicts BEGIN UPDATE slots SET since = since WHERE person = NEW.person; END;
CREATE TRIGGER labels_stay BEFORE UPDATE ON labels BEGIN SELECT raise(ABORT, 'labels are only appended'); END;
CREATE TRIGGER labels_are_kept BEFORE DELETE ON labels BEGIN SELECT raise(ABORT, 'labels are only appended'); END;

CREATE TRIGGER count_at_INSERT AFTER INSERT ON slots BEGIN
    UPDATE places SET
        taken = (SELECT count(*) FROM taken WHERE taken.item = places.item AND taken.stage = places.stage),
        given = (SELECT count(*) FROM valid WHERE valid.item = places.item AND valid.stage = places.stage)
    WHERE item = NEW.item;
    UPDATE places SET is_free = taken < needed AND iif(
        EXISTS (SELECT 1 FROM decided WHERE decided.item = NEW.item),
        final,
        after IS NULL OR EXISTS (
            SELECT 1 FROM places AS b WHERE b.item = NEW.item AND b.stage = places.after AND b.given >= b.needed))
    WHERE item = NEW.item;
END;

CREATE TRIGGER count_at_UPDATE AFTER UPDATE ON slots BEGIN
    UPDATE places SET
        taken = (SELECT count(*) FROM taken WHERE taken.item = places.item AND taken.stage = places.stage),
        given = (SELECT count(*) FROM valid WHERE valid.item = places.item AND valid.stage = places.stage)
    WHERE item = NEW.item;
    UPDATE places SET is_free = taken < needed AND iif(
        EXISTS (SELECT 1 FROM decided WHERE decided.item = NEW.item),
        final,
        after IS NULL OR EXISTS (
            SELECT 1 FROM places AS b WHERE b.item = NEW.item AND b.stage = places.after AND b.given >= b.needed))
    WHERE item = NEW.item;
END;
