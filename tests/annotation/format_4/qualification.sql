PRAGMA application_id = 1279607118;
PRAGMA user_version = 4;
BEGIN TRANSACTION;
CREATE TABLE items (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, part TEXT NOT NULL, shown TEXT NOT NULL, hidden TEXT NOT NULL,
    known TEXT, initial TEXT
);
INSERT INTO "items" VALUES(0,'text/10','qualification','{"text": "<b>text 10</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(1,'text/14','qualification','{"text": "<b>text 14</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(2,'text/5','main','{"text": "<b>text 5</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(3,'text/1','main','{"text": "<b>text 1</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(4,'text/9','main','{"text": "<b>text 9</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
INSERT INTO "items" VALUES(5,'text/2','main','{"text": "<b>text 2</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(6,'text/3','main','{"text": "<b>text 3</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
INSERT INTO "items" VALUES(7,'text/11','main','{"text": "<b>text 11</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(8,'text/13','main','{"text": "<b>text 13</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(9,'text/7','main','{"text": "<b>text 7</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(10,'text/8','main','{"text": "<b>text 8</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(11,'text/4','main','{"text": "<b>text 4</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(12,'text/0','main','{"text": "<b>text 0</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
INSERT INTO "items" VALUES(13,'text/6','main','{"text": "<b>text 6</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
INSERT INTO "items" VALUES(14,'text/15','main','{"text": "<b>text 15</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
INSERT INTO "items" VALUES(15,'text/12','main','{"text": "<b>text 12</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
CREATE TABLE labels (
    id INTEGER PRIMARY KEY AUTOINCREMENT, slot INTEGER NOT NULL REFERENCES slots, form TEXT NOT NULL,
    choices TEXT, comment TEXT NOT NULL, seconds REAL, at TEXT NOT NULL, skipped TEXT
);
INSERT INTO "labels" VALUES(1,1,'form 0','{"rating": "1"}','',0.0,'2026-11-29T07:28:00.822+00:00',NULL);
INSERT INTO "labels" VALUES(2,2,'form 1','{"rating": "1"}','',1.0,'2026-11-29T07:28:00.857+00:00',NULL);
INSERT INTO "labels" VALUES(3,3,'form 3','{"rating": "1"}','comment 3',3.0,'2026-11-29T07:28:00.897+00:00',NULL);
INSERT INTO "labels" VALUES(4,5,'form 8','{"rating": "1"}','comment 8',8.0,'2026-11-29T07:28:00.946+00:00',NULL);
INSERT INTO "labels" VALUES(5,6,'form 10',NULL,'',NULL,'2026-11-29T07:28:00.963+00:00','too dark');
INSERT INTO "labels" VALUES(6,7,'form 15',NULL,'',NULL,'2026-11-29T07:28:01.028+00:00','too dark');
INSERT INTO "labels" VALUES(7,8,'form 34','{"rating": "1"}','comment 34',34.0,'2026-11-29T07:28:01.080+00:00',NULL);
INSERT INTO "labels" VALUES(8,9,'form 35','{"rating": "1"}','comment 35',35.0,'2026-11-29T07:28:01.090+00:00',NULL);
INSERT INTO "labels" VALUES(9,1,'change 36','{"rating": "0"}','changed',NULL,'2026-11-29T07:28:01.091+00:00',NULL);
INSERT INTO "labels" VALUES(10,10,'form 41',NULL,'',NULL,'2026-11-29T07:28:01.153+00:00','too dark');
INSERT INTO "labels" VALUES(11,11,'form 43','{"rating": "0"}','comment 43',43.0,'2026-11-29T07:28:01.414+00:00',NULL);
INSERT INTO "labels" VALUES(12,12,'form 68',NULL,'',NULL,'2026-11-29T07:28:01.535+00:00','too dark');
INSERT INTO "labels" VALUES(13,13,'form 70','{"rating": "1"}','comment 70',70.0,'2026-11-29T07:28:01.542+00:00',NULL);
INSERT INTO "labels" VALUES(14,14,'form 89','{"rating": "1"}','comment 89',89.0,'2026-11-29T07:28:01.557+00:00',NULL);
INSERT INTO "labels" VALUES(15,15,'form 91',NULL,'',NULL,'2026-11-29T07:28:01.561+00:00','too dark');
INSERT INTO "labels" VALUES(16,16,'decision 94','{"rating": "1"}','decided',NULL,'2026-11-29T07:28:01.570+00:00',NULL);
INSERT INTO "labels" VALUES(17,17,'form 102','{"rating": "1"}','',102.0,'2026-11-29T07:28:01.576+00:00',NULL);
INSERT INTO "labels" VALUES(18,18,'form 103','{"rating": "1"}','',103.0,'2026-11-29T07:28:01.583+00:00',NULL);
INSERT INTO "labels" VALUES(19,16,'decision 113','{"rating": "1"}','decided',NULL,'2026-11-29T07:28:01.591+00:00',NULL);
INSERT INTO "labels" VALUES(20,16,'decision 114','{"rating": "0"}','decided',NULL,'2026-11-29T07:28:01.594+00:00',NULL);
INSERT INTO "labels" VALUES(21,16,'decision 115','{"rating": "0"}','decided',NULL,'2026-11-29T07:28:01.598+00:00',NULL);
INSERT INTO "labels" VALUES(22,19,'form 122','{"rating": "1"}','comment 122',122.0,'2026-11-29T07:28:01.610+00:00',NULL);
INSERT INTO "labels" VALUES(23,20,'decision 130','{"rating": "1"}','decided',NULL,'2026-11-29T07:28:01.618+00:00',NULL);
INSERT INTO "labels" VALUES(24,21,'form 132','{"rating": "0"}','',132.0,'2026-11-29T07:28:01.622+00:00',NULL);
INSERT INTO "labels" VALUES(25,22,'form 138',NULL,'',NULL,'2026-11-29T07:28:01.633+00:00','too dark');
INSERT INTO "labels" VALUES(26,23,'form 140',NULL,'',NULL,'2026-11-29T07:28:01.664+00:00','too dark');
INSERT INTO "labels" VALUES(27,24,'decision 142','{"rating": "0"}','decided',NULL,'2026-11-29T07:28:01.686+00:00',NULL);
INSERT INTO "labels" VALUES(28,14,'change 148','{"rating": "0"}','changed',NULL,'2026-11-29T07:28:01.774+00:00',NULL);
INSERT INTO "labels" VALUES(29,25,'label-studio 149','{"rating": "1"}','comment 149',149.0,'2026-11-29T07:28:01.882+00:00',NULL);
INSERT INTO "labels" VALUES(30,26,'form 150','{"rating": "1"}','',150.0,'2026-11-29T07:28:02.022+00:00',NULL);
INSERT INTO "labels" VALUES(31,27,'form 152','{"rating": "0"}','comment 152',152.0,'2026-11-29T07:28:02.060+00:00',NULL);
CREATE TABLE people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, team TEXT NOT NULL, token TEXT NOT NULL UNIQUE, called TEXT UNIQUE,
    is_closed INTEGER NOT NULL DEFAULT 0, num_labelled INTEGER NOT NULL DEFAULT 0,
    num_in_rounds INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO "people" VALUES('annotator-1','annotator','annotator','6H_X3NFrhUmp4GSpmkHyQjY_y4NrWWUA','Ana',0,2,0);
INSERT INTO "people" VALUES('annotator-2','annotator','annotator','sFPvShv3FrJbDZdQz1iLqtoKEjpyR4YG',NULL,1,3,2);
INSERT INTO "people" VALUES('annotator-3','annotator','annotator','doOmj-RC-NYQr7cmjy63J1VfFLpA-tAG',NULL,0,4,2);
INSERT INTO "people" VALUES('annotator-4','annotator','annotator','A82T2gyz7XYMcK7W_H2gPbxusXKoVAwe',NULL,0,7,6);
INSERT INTO "people" VALUES('lead','lead','','sy0DdRBpnA7pB__jMKg9V4gz5mBBY3Rs',NULL,0,3,3);
INSERT INTO "people" VALUES('senior-1','senior','','JQlAeFfwuFPWEmn3cMLwRm3Ci3i2l060',NULL,0,0,0);
CREATE TABLE places (
    item INTEGER NOT NULL REFERENCES items, stage TEXT NOT NULL, part TEXT NOT NULL, after TEXT,
    needed INTEGER NOT NULL, taken INTEGER NOT NULL DEFAULT 0, given INTEGER NOT NULL DEFAULT 0,
    is_free INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL,
    PRIMARY KEY (item, stage)
) WITHOUT ROWID;
INSERT INTO "places" VALUES(0,'qualification','qualification',NULL,4,3,3,1,0);
INSERT INTO "places" VALUES(1,'qualification','qualification',NULL,4,1,1,1,0);
INSERT INTO "places" VALUES(2,'rate','main',NULL,2,0,0,0,0);
INSERT INTO "places" VALUES(3,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(4,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(5,'rate','main',NULL,2,0,0,0,0);
INSERT INTO "places" VALUES(6,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(7,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(8,'rate','main',NULL,2,1,1,1,0);
INSERT INTO "places" VALUES(9,'rate','main',NULL,2,1,1,1,0);
INSERT INTO "places" VALUES(10,'rate','main',NULL,2,0,0,1,0);
INSERT INTO "places" VALUES(11,'rate','main',NULL,2,0,0,0,0);
INSERT INTO "places" VALUES(12,'rate','main',NULL,2,0,0,1,0);
INSERT INTO "places" VALUES(13,'rate','main',NULL,2,0,0,1,0);
INSERT INTO "places" VALUES(14,'rate','main',NULL,2,0,0,1,0);
INSERT INTO "places" VALUES(15,'rate','main',NULL,2,0,0,1,0);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "settings" VALUES('made','"2026-11-29T07:28:00.718+00:00"');
INSERT INTO "settings" VALUES('secret','"a3f3f1bc2fe2d505daa47ddd848f23a65672ca11cf558f514204236de734ecf3"');
INSERT INTO "settings" VALUES('study','{"flow": "rating", "source": "", "people": {"annotator": {"count": 4, "quota": null, "names": [], "limits": []}}, "rounds": [{"name": "rate", "people": "annotator", "per_item": 2, "sample": null, "apart": null, "final": false, "seconds": null}], "qualification": 2, "seniors": 1, "training": null, "gold": null}');
CREATE TABLE slots (
    id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL REFERENCES items, stage TEXT NOT NULL,
    person TEXT NOT NULL REFERENCES people, since TEXT NOT NULL, released TEXT, label INTEGER, skipped TEXT
);
INSERT INTO "slots" VALUES(1,0,'qualification','annotator-2','2026-11-29T07:28:00.810+00:00',NULL,9,NULL);
INSERT INTO "slots" VALUES(2,0,'qualification','annotator-1','2026-11-29T07:28:00.838+00:00',NULL,2,NULL);
INSERT INTO "slots" VALUES(3,1,'qualification','annotator-1','2026-11-29T07:28:00.882+00:00',NULL,3,NULL);
INSERT INTO "slots" VALUES(4,0,'qualification','annotator-3','2026-11-29T07:28:00.910+00:00','2026-11-29T07:28:01.039+00:00',NULL,NULL);
INSERT INTO "slots" VALUES(5,0,'qualification','annotator-4','2026-11-29T07:28:00.935+00:00',NULL,4,NULL);
INSERT INTO "slots" VALUES(6,1,'qualification','annotator-4','2026-11-29T07:28:00.954+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(7,1,'qualification','annotator-2','2026-11-29T07:28:00.971+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(8,1,'qualification','annotator-3','2026-11-29T07:28:01.074+00:00',NULL,7,NULL);
INSERT INTO "slots" VALUES(9,0,'qualification','annotator-3','2026-11-29T07:28:01.086+00:00',NULL,8,NULL);
INSERT INTO "slots" VALUES(10,2,'rate','annotator-2','2026-11-29T07:28:01.137+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(11,3,'rate','annotator-2','2026-11-29T07:28:01.386+00:00',NULL,11,NULL);
INSERT INTO "slots" VALUES(12,2,'rate','annotator-4','2026-11-29T07:28:01.495+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(13,3,'rate','annotator-4','2026-11-29T07:28:01.540+00:00',NULL,13,NULL);
INSERT INTO "slots" VALUES(14,4,'rate','annotator-4','2026-11-29T07:28:01.556+00:00',NULL,28,NULL);
INSERT INTO "slots" VALUES(15,5,'rate','annotator-4','2026-11-29T07:28:01.560+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(16,2,'adjudication','lead','2026-11-29T07:28:01.566+00:00',NULL,21,NULL);
INSERT INTO "slots" VALUES(17,6,'rate','annotator-4','2026-11-29T07:28:01.573+00:00',NULL,17,NULL);
INSERT INTO "slots" VALUES(18,7,'rate','annotator-4','2026-11-29T07:28:01.582+00:00',NULL,18,NULL);
INSERT INTO "slots" VALUES(19,8,'rate','annotator-4','2026-11-29T07:28:01.600+00:00',NULL,22,NULL);
INSERT INTO "slots" VALUES(20,5,'adjudication','lead','2026-11-29T07:28:01.612+00:00',NULL,23,NULL);
INSERT INTO "slots" VALUES(21,9,'rate','annotator-4','2026-11-29T07:28:01.621+00:00',NULL,24,NULL);
INSERT INTO "slots" VALUES(22,10,'rate','annotator-4','2026-11-29T07:28:01.628+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(23,11,'rate','annotator-4','2026-11-29T07:28:01.656+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(24,11,'adjudication','lead','2026-11-29T07:28:01.679+00:00',NULL,27,NULL);
INSERT INTO "slots" VALUES(25,4,'rate','annotator-3','2026-11-29T07:28:01.810+00:00',NULL,29,NULL);
INSERT INTO "slots" VALUES(26,6,'rate','annotator-3','2026-11-29T07:28:02.006+00:00',NULL,30,NULL);
INSERT INTO "slots" VALUES(27,7,'rate','annotator-2','2026-11-29T07:28:02.042+00:00',NULL,31,NULL);
CREATE TABLE totals (stage TEXT PRIMARY KEY, needed INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "totals" VALUES('qualification',8);
INSERT INTO "totals" VALUES('rate',28);
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, person TEXT NOT NULL REFERENCES people, senior TEXT NOT NULL,
    passed INTEGER NOT NULL, comment TEXT NOT NULL, at TEXT NOT NULL
);
INSERT INTO "verdicts" VALUES(1,'annotator-1','senior-1',0,'','2026-11-29T07:28:01.079+00:00');
INSERT INTO "verdicts" VALUES(2,'annotator-2','senior-1',1,'','2026-11-29T07:28:01.117+00:00');
INSERT INTO "verdicts" VALUES(3,'annotator-2','senior-1',0,'','2026-11-29T07:28:01.418+00:00');
INSERT INTO "verdicts" VALUES(4,'annotator-4','senior-1',1,'','2026-11-29T07:28:01.431+00:00');
INSERT INTO "verdicts" VALUES(5,'annotator-3','senior-1',0,'','2026-11-29T07:28:01.546+00:00');
INSERT INTO "verdicts" VALUES(6,'annotator-3','senior-1',0,'','2026-11-29T07:28:01.572+00:00');
INSERT INTO "verdicts" VALUES(7,'annotator-1','senior-1',1,'','2026-11-29T07:28:01.584+00:00');
INSERT INTO "verdicts" VALUES(8,'annotator-1','senior-1',0,'','2026-11-29T07:28:01.585+00:00');
INSERT INTO "verdicts" VALUES(9,'annotator-2','senior-1',1,'','2026-11-29T07:28:01.626+00:00');
INSERT INTO "verdicts" VALUES(10,'annotator-3','senior-1',1,'','2026-11-29T07:28:01.699+00:00');
INSERT INTO "verdicts" VALUES(11,'annotator-4','senior-1',1,'','2026-11-29T07:28:01.756+00:00');
CREATE UNIQUE INDEX live_slots ON slots (item, person, stage) WHERE released IS NULL;
CREATE INDEX gold_slots ON slots (person) WHERE stage = 'gold';
CREATE INDEX slots_by ON slots (person);
CREATE INDEX slots_of ON slots (person, label);
CREATE INDEX open_slots ON slots (person) WHERE label IS NULL AND skipped IS NULL AND released IS NULL;
CREATE INDEX slots_on ON slots (item, person);
CREATE INDEX qualifying ON slots (person) WHERE stage = 'qualification';
CREATE TRIGGER needed_at_INSERT AFTER INSERT ON places BEGIN
    INSERT INTO totals VALUES (NEW.stage, NEW.needed)
    ON CONFLICT (stage) DO UPDATE SET needed = needed + excluded.needed;
END;
CREATE TRIGGER needed_at_UPDATE AFTER UPDATE OF needed ON places BEGIN
    UPDATE totals SET needed = needed + NEW.needed - OLD.needed WHERE stage = NEW.stage;
END;
CREATE INDEX free_places ON places (stage, part, item) WHERE is_free;
CREATE INDEX labels_of ON labels (slot);
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
CREATE TRIGGER counted_at_INSERT AFTER INSERT ON slots BEGIN
    UPDATE people SET num_in_rounds = num_in_rounds + (NEW.stage NOT IN ('training', 'qualification', 'gold'))
    WHERE name = NEW.person;
END;
CREATE TRIGGER counted_at_UPDATE AFTER UPDATE OF label, skipped, released ON slots BEGIN
    UPDATE people SET
        num_labelled = num_labelled + (NEW.label IS NOT NULL) - (OLD.label IS NOT NULL),
        num_in_rounds = num_in_rounds + (NEW.stage NOT IN ('training', 'qualification', 'gold'))
            * ((NEW.released IS NULL AND NEW.skipped IS NULL) - (OLD.released IS NULL AND OLD.skipped IS NULL))
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('slots',27);
INSERT INTO "sqlite_sequence" VALUES('labels',31);
INSERT INTO "sqlite_sequence" VALUES('verdicts',11);
COMMIT;
