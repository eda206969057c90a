PRAGMA application_id = 1279607118;
PRAGMA user_version = 4;
BEGIN TRANSACTION;
CREATE TABLE items (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, part TEXT NOT NULL, shown TEXT NOT NULL, hidden TEXT NOT NULL,
    known TEXT, initial TEXT
);
INSERT INTO "items" VALUES(0,'text/11','main','{"text": "<b>text 11</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(1,'text/9','main','{"text": "<b>text 9</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
INSERT INTO "items" VALUES(2,'text/0','training','{"text": "<b>text 0</b>"}','{"model": "secret-model"}','{"rating": "1"}','{"rating": "1"}');
INSERT INTO "items" VALUES(3,'text/16','main','{"text": "<b>text 16</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(4,'text/2','gold','{"text": "<b>text 2</b>"}','{"model": "secret-model"}','{"rating": "1"}',NULL);
INSERT INTO "items" VALUES(5,'text/15','main','{"text": "<b>text 15</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
INSERT INTO "items" VALUES(6,'text/10','main','{"text": "<b>text 10</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(7,'text/3','gold','{"text": "<b>text 3</b>"}','{"model": "secret-model"}','{"rating": "1"}','{"rating": "1"}');
INSERT INTO "items" VALUES(8,'text/5','main','{"text": "<b>text 5</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(9,'text/17','main','{"text": "<b>text 17</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(10,'text/14','main','{"text": "<b>text 14</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(11,'text/6','main','{"text": "<b>text 6</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
INSERT INTO "items" VALUES(12,'text/7','main','{"text": "<b>text 7</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(13,'text/8','main','{"text": "<b>text 8</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(14,'text/4','main','{"text": "<b>text 4</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(15,'text/1','gold','{"text": "<b>text 1</b>"}','{"model": "secret-model"}','{"rating": "1"}',NULL);
INSERT INTO "items" VALUES(16,'text/13','main','{"text": "<b>text 13</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(17,'text/12','main','{"text": "<b>text 12</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
CREATE TABLE labels (
    id INTEGER PRIMARY KEY AUTOINCREMENT, slot INTEGER NOT NULL REFERENCES slots, form TEXT NOT NULL,
    choices TEXT, comment TEXT NOT NULL, seconds REAL, at TEXT NOT NULL, skipped TEXT
);
INSERT INTO "labels" VALUES(1,1,'form 3','{"rating": "1"}','comment 3',3.0,'2026-11-29T07:27:43.294+00:00',NULL);
INSERT INTO "labels" VALUES(2,2,'form 5','{"rating": "1"}','',5.0,'2026-11-29T07:27:43.310+00:00',NULL);
INSERT INTO "labels" VALUES(3,3,'form 9',NULL,'',NULL,'2026-11-29T07:27:43.320+00:00','too dark');
INSERT INTO "labels" VALUES(4,2,'change 12','{"rating": "1"}','changed',NULL,'2026-11-29T07:27:43.321+00:00',NULL);
INSERT INTO "labels" VALUES(5,4,'form 13','{"rating": "1"}','comment 13',13.0,'2026-11-29T07:27:43.346+00:00',NULL);
INSERT INTO "labels" VALUES(6,5,'form 18','{"rating": "1"}','',18.0,'2026-11-29T07:27:43.381+00:00',NULL);
INSERT INTO "labels" VALUES(7,6,'form 20','{"rating": "1"}','',20.0,'2026-11-29T07:27:43.401+00:00',NULL);
INSERT INTO "labels" VALUES(8,7,'form 22',NULL,'',NULL,'2026-11-29T07:27:43.427+00:00','too dark');
INSERT INTO "labels" VALUES(9,8,'form 23','{"rating": "1"}','',23.0,'2026-11-29T07:27:43.441+00:00',NULL);
INSERT INTO "labels" VALUES(10,9,'form 25','{"rating": "aside"}','comment 25',25.0,'2026-11-29T07:27:43.466+00:00',NULL);
INSERT INTO "labels" VALUES(11,10,'form 27','{"rating": "1"}','',27.0,'2026-11-29T07:27:43.489+00:00',NULL);
INSERT INTO "labels" VALUES(12,11,'label-studio 29','{"rating": "1"}','comment 29',29.0,'2026-11-29T07:27:43.514+00:00',NULL);
INSERT INTO "labels" VALUES(13,12,'form 31','{"rating": "0"}','',31.0,'2026-11-29T07:27:43.538+00:00',NULL);
INSERT INTO "labels" VALUES(14,13,'form 32','{"rating": "1"}','comment 32',32.0,'2026-11-29T07:27:43.566+00:00',NULL);
INSERT INTO "labels" VALUES(15,14,'form 33','{"rating": "1"}','',33.0,'2026-11-29T07:27:43.582+00:00',NULL);
INSERT INTO "labels" VALUES(16,15,'form 37','{"rating": "1"}','comment 37',37.0,'2026-11-29T07:27:43.600+00:00',NULL);
INSERT INTO "labels" VALUES(17,16,'form 40','{"rating": "1"}','',40.0,'2026-11-29T07:27:43.620+00:00',NULL);
INSERT INTO "labels" VALUES(18,17,'form 41','{"rating": "0"}','comment 41',41.0,'2026-11-29T07:27:43.641+00:00',NULL);
INSERT INTO "labels" VALUES(19,18,'form 42','{"rating": "0"}','comment 42',42.0,'2026-11-29T07:27:43.669+00:00',NULL);
INSERT INTO "labels" VALUES(20,19,'form 45',NULL,'',NULL,'2026-11-29T07:27:43.697+00:00','too dark');
INSERT INTO "labels" VALUES(21,8,'change 46','{"rating": "1"}','changed',NULL,'2026-11-29T07:27:43.711+00:00',NULL);
INSERT INTO "labels" VALUES(22,20,'form 48','{"rating": "1"}','comment 48',48.0,'2026-11-29T07:27:43.734+00:00',NULL);
INSERT INTO "labels" VALUES(23,21,'form 49','{"rating": "1"}','comment 49',49.0,'2026-11-29T07:27:43.778+00:00',NULL);
INSERT INTO "labels" VALUES(24,22,'form 51','{"rating": "1"}','',51.0,'2026-11-29T07:27:43.809+00:00',NULL);
INSERT INTO "labels" VALUES(25,23,'form 55','{"rating": "1"}','',55.0,'2026-11-29T07:27:43.830+00:00',NULL);
INSERT INTO "labels" VALUES(26,24,'form 57','{"rating": "1"}','',57.0,'2026-11-29T07:27:43.838+00:00',NULL);
INSERT INTO "labels" VALUES(27,25,'form 58','{"rating": "1"}','comment 58',58.0,'2026-11-29T07:27:43.886+00:00',NULL);
INSERT INTO "labels" VALUES(28,26,'form 61','{"rating": "1"}','comment 61',61.0,'2026-11-29T07:27:43.902+00:00',NULL);
INSERT INTO "labels" VALUES(29,27,'form 62','{"rating": "1"}','',62.0,'2026-11-29T07:27:43.910+00:00',NULL);
INSERT INTO "labels" VALUES(30,23,'change 63','{"rating": "0"}','changed',NULL,'2026-11-29T07:27:43.919+00:00',NULL);
INSERT INTO "labels" VALUES(31,28,'form 66','{"rating": "0"}','',66.0,'2026-11-29T07:27:43.935+00:00',NULL);
INSERT INTO "labels" VALUES(32,29,'form 67',NULL,'',NULL,'2026-11-29T07:27:43.950+00:00','too dark');
INSERT INTO "labels" VALUES(33,30,'form 73','{"rating": "1"}','comment 73',73.0,'2026-11-29T07:27:43.963+00:00',NULL);
INSERT INTO "labels" VALUES(34,32,'label-studio 75','{"rating": "aside"}','comment 75',75.0,'2026-11-29T07:27:43.982+00:00',NULL);
INSERT INTO "labels" VALUES(35,33,'form 76','{"rating": "1"}','',76.0,'2026-11-29T07:27:43.991+00:00',NULL);
INSERT INTO "labels" VALUES(36,34,'decision 77','{"rating": "1"}','decided',NULL,'2026-11-29T07:27:44.034+00:00',NULL);
INSERT INTO "labels" VALUES(37,35,'form 78','{"rating": "1"}','comment 78',78.0,'2026-11-29T07:27:44.070+00:00',NULL);
INSERT INTO "labels" VALUES(38,36,'form 80','{"rating": "aside"}','',80.0,'2026-11-29T07:27:44.135+00:00',NULL);
INSERT INTO "labels" VALUES(39,37,'form 81','{"rating": "1"}','',81.0,'2026-11-29T07:27:44.162+00:00',NULL);
INSERT INTO "labels" VALUES(40,38,'form 89','{"rating": "1"}','',89.0,'2026-11-29T07:27:44.175+00:00',NULL);
INSERT INTO "labels" VALUES(41,39,'form 90','{"rating": "0"}','',90.0,'2026-11-29T07:27:44.202+00:00',NULL);
INSERT INTO "labels" VALUES(42,40,'form 92','{"rating": "1"}','comment 92',92.0,'2026-11-29T07:27:44.269+00:00',NULL);
INSERT INTO "labels" VALUES(43,41,'form 93','{"rating": "1"}','',93.0,'2026-11-29T07:27:44.294+00:00',NULL);
INSERT INTO "labels" VALUES(44,42,'form 96','{"rating": "0"}','comment 96',96.0,'2026-11-29T07:27:44.345+00:00',NULL);
INSERT INTO "labels" VALUES(45,43,'decision 98','{"rating": "1"}','decided',NULL,'2026-11-29T07:27:44.385+00:00',NULL);
INSERT INTO "labels" VALUES(46,44,'form 99','{"rating": "0"}','',99.0,'2026-11-29T07:27:44.406+00:00',NULL);
INSERT INTO "labels" VALUES(47,45,'form 100','{"rating": "0"}','comment 100',100.0,'2026-11-29T07:27:44.428+00:00',NULL);
INSERT INTO "labels" VALUES(48,33,'change 101','{"rating": "0"}','changed',NULL,'2026-11-29T07:27:44.437+00:00',NULL);
INSERT INTO "labels" VALUES(49,46,'label-studio 103','{"rating": "1"}','',103.0,'2026-11-29T07:27:44.453+00:00',NULL);
INSERT INTO "labels" VALUES(50,47,'form 104','{"rating": "1"}','',104.0,'2026-11-29T07:27:44.474+00:00',NULL);
INSERT INTO "labels" VALUES(51,49,'form 109','{"rating": "aside"}','comment 109',109.0,'2026-11-29T07:27:44.505+00:00',NULL);
INSERT INTO "labels" VALUES(52,48,'form 110','{"rating": "1"}','',110.0,'2026-11-29T07:27:44.518+00:00',NULL);
INSERT INTO "labels" VALUES(53,50,'label-studio 112','{"rating": "1"}','',112.0,'2026-11-29T07:27:44.538+00:00',NULL);
INSERT INTO "labels" VALUES(54,52,'form 114','{"rating": "1"}','',114.0,'2026-11-29T07:27:44.559+00:00',NULL);
INSERT INTO "labels" VALUES(55,53,'form 115',NULL,'',NULL,'2026-11-29T07:27:44.576+00:00','too dark');
INSERT INTO "labels" VALUES(56,54,'form 116','{"rating": "0"}','comment 116',116.0,'2026-11-29T07:27:44.595+00:00',NULL);
INSERT INTO "labels" VALUES(57,56,'form 118',NULL,'',NULL,'2026-11-29T07:27:44.650+00:00','too dark');
INSERT INTO "labels" VALUES(58,55,'form 123','{"rating": "1"}','comment 123',123.0,'2026-11-29T07:27:44.653+00:00',NULL);
INSERT INTO "labels" VALUES(59,49,'change 124','{"rating": "1"}','changed',NULL,'2026-11-29T07:27:44.922+00:00',NULL);
INSERT INTO "labels" VALUES(60,57,'form 125','{"rating": "1"}','comment 125',125.0,'2026-11-29T07:27:45.142+00:00',NULL);
INSERT INTO "labels" VALUES(61,58,'form 127','{"rating": "1"}','comment 127',127.0,'2026-11-29T07:27:45.156+00:00',NULL);
INSERT INTO "labels" VALUES(62,59,'form 128','{"rating": "1"}','',128.0,'2026-11-29T07:27:45.172+00:00',NULL);
INSERT INTO "labels" VALUES(63,18,'change 129','{"rating": "1"}','changed',NULL,'2026-11-29T07:27:45.182+00:00',NULL);
INSERT INTO "labels" VALUES(64,60,'form 139','{"rating": "1"}','comment 139',139.0,'2026-11-29T07:27:45.223+00:00',NULL);
INSERT INTO "labels" VALUES(65,41,'change 152','{"rating": "0"}','changed',NULL,'2026-11-29T07:27:45.240+00:00',NULL);
INSERT INTO "labels" VALUES(66,61,'form 156',NULL,'',NULL,'2026-11-29T07:27:45.282+00:00','too dark');
CREATE TABLE people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, team TEXT NOT NULL, token TEXT NOT NULL UNIQUE, called TEXT UNIQUE,
    is_closed INTEGER NOT NULL DEFAULT 0, num_labelled INTEGER NOT NULL DEFAULT 0,
    num_in_rounds INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO "people" VALUES('annotator-1','annotator','annotator','MdG3D-2I2zUWuRAJffYYsz2dbgjpgDa3','Ana',0,12,9);
INSERT INTO "people" VALUES('annotator-2','annotator','annotator','0hKyRynVUkSwFgrAjjSVjc3Pk-x5FXED',NULL,1,7,5);
INSERT INTO "people" VALUES('annotator-3','annotator','annotator','9c2aDky28S4dTucM2xMaoefnqJoD7R1h',NULL,0,15,11);
INSERT INTO "people" VALUES('annotator-4','annotator','annotator','iiQOKJ67ZDOmJKpZ1Gyc3iVmrtJTn1tV',NULL,0,5,4);
INSERT INTO "people" VALUES('lead','lead','','cekaJW4-NjcKbQWxO-h9rZfCiwQXwRrq',NULL,0,2,3);
INSERT INTO "people" VALUES('reviewer-1','annotator','reviewer','I-2v_bnB2RQxXK4xzvwlHeZPGRM2TPbM',NULL,0,1,1);
INSERT INTO "people" VALUES('reviewer-2','annotator','reviewer','zvIWMJ-urvtNcvwPsF7cS3D-s0fAC4iq',NULL,0,5,5);
INSERT INTO "people" VALUES('reviewer-3','annotator','reviewer','4SuDrWkuAU49ILU5o9ikkSJDksOoNacc',NULL,0,5,5);
CREATE TABLE places (
    item INTEGER NOT NULL REFERENCES items, stage TEXT NOT NULL, part TEXT NOT NULL, after TEXT,
    needed INTEGER NOT NULL, taken INTEGER NOT NULL DEFAULT 0, given INTEGER NOT NULL DEFAULT 0,
    is_free INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL,
    PRIMARY KEY (item, stage)
) WITHOUT ROWID;
INSERT INTO "places" VALUES(0,'audit','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(0,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(0,'recheck','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(1,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(1,'recheck','main','adjudication',0,0,0,0,1);
INSERT INTO "places" VALUES(2,'training','training',NULL,4,3,3,1,0);
INSERT INTO "places" VALUES(3,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(3,'recheck','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(4,'gold','gold',NULL,4,3,3,1,0);
INSERT INTO "places" VALUES(5,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(5,'recheck','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(6,'audit','main','adjudication',1,0,0,0,1);
INSERT INTO "places" VALUES(6,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(6,'recheck','main','adjudication',1,0,0,0,1);
INSERT INTO "places" VALUES(7,'gold','gold',NULL,4,3,3,1,0);
INSERT INTO "places" VALUES(8,'check','main','rate',2,2,2,0,0);
INSERT INTO "places" VALUES(8,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(8,'recheck','main','adjudication',1,1,1,0,1);
INSERT INTO "places" VALUES(9,'check','main','rate',0,0,0,0,0);
INSERT INTO "places" VALUES(9,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(9,'recheck','main','adjudication',0,0,0,0,1);
INSERT INTO "places" VALUES(10,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(10,'recheck','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(11,'audit','main','adjudication',0,0,0,0,1);
INSERT INTO "places" VALUES(11,'check','main','rate',0,0,0,0,0);
INSERT INTO "places" VALUES(11,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(11,'recheck','main','adjudication',0,0,0,0,1);
INSERT INTO "places" VALUES(12,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(12,'recheck','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(13,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(13,'recheck','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(14,'check','main','rate',2,1,1,1,0);
INSERT INTO "places" VALUES(14,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(14,'recheck','main','adjudication',1,0,0,0,1);
INSERT INTO "places" VALUES(15,'gold','gold',NULL,4,1,1,1,0);
INSERT INTO "places" VALUES(16,'check','main','rate',2,1,1,1,0);
INSERT INTO "places" VALUES(16,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(16,'recheck','main','adjudication',1,0,0,0,1);
INSERT INTO "places" VALUES(17,'audit','main','adjudication',1,0,0,0,1);
INSERT INTO "places" VALUES(17,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(17,'recheck','main','adjudication',1,0,0,0,1);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "settings" VALUES('made','"2026-11-29T07:27:43.277+00:00"');
INSERT INTO "settings" VALUES('secret','"b3152fa1d4d4e1e365bf93d9aa0e01cafbd6c283f0aa1030d6eb7b9b960aa465"');
INSERT INTO "settings" VALUES('study','{"flow": "studied", "source": "", "people": {"annotator": {"count": 4, "quota": 500, "names": ["Zoe"], "limits": []}, "reviewer": {"count": 3, "quota": null, "names": [], "limits": []}}, "rounds": [{"name": "rate", "people": "annotator", "per_item": 2, "sample": null, "apart": null, "final": false, "seconds": null}, {"name": "check", "people": "reviewer", "per_item": 2, "sample": 5, "apart": null, "final": false, "seconds": null}, {"name": "audit", "people": "annotator", "per_item": 1, "sample": 4, "apart": [], "final": true, "seconds": null}, {"name": "recheck", "people": "reviewer", "per_item": 1, "sample": null, "apart": ["rate", "audit"], "final": true, "seconds": null}], "qualification": 0, "seniors": 0, "training": "training.jsonl", "gold": {"labels": "gold.jsonl", "every": 3}}');
CREATE TABLE slots (
    id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL REFERENCES items, stage TEXT NOT NULL,
    person TEXT NOT NULL REFERENCES people, since TEXT NOT NULL, released TEXT, label INTEGER, skipped TEXT
);
INSERT INTO "slots" VALUES(1,2,'training','annotator-3','2026-11-29T07:27:43.291+00:00',NULL,1,NULL);
INSERT INTO "slots" VALUES(2,0,'rate','annotator-3','2026-11-29T07:27:43.307+00:00',NULL,4,NULL);
INSERT INTO "slots" VALUES(3,2,'training','annotator-2','2026-11-29T07:27:43.319+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(4,1,'rate','annotator-3','2026-11-29T07:27:43.334+00:00',NULL,5,NULL);
INSERT INTO "slots" VALUES(5,3,'rate','annotator-3','2026-11-29T07:27:43.367+00:00',NULL,6,NULL);
INSERT INTO "slots" VALUES(6,4,'gold','annotator-3','2026-11-29T07:27:43.392+00:00',NULL,7,NULL);
INSERT INTO "slots" VALUES(7,0,'rate','annotator-2','2026-11-29T07:27:43.417+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(8,2,'training','annotator-4','2026-11-29T07:27:43.435+00:00',NULL,21,NULL);
INSERT INTO "slots" VALUES(9,1,'rate','annotator-2','2026-11-29T07:27:43.449+00:00',NULL,10,NULL);
INSERT INTO "slots" VALUES(10,0,'rate','annotator-4','2026-11-29T07:27:43.481+00:00',NULL,11,NULL);
INSERT INTO "slots" VALUES(11,2,'training','annotator-1','2026-11-29T07:27:43.506+00:00',NULL,12,NULL);
INSERT INTO "slots" VALUES(12,0,'audit','annotator-3','2026-11-29T07:27:43.530+00:00',NULL,13,NULL);
INSERT INTO "slots" VALUES(13,0,'recheck','reviewer-2','2026-11-29T07:27:43.550+00:00',NULL,14,NULL);
INSERT INTO "slots" VALUES(14,3,'rate','annotator-1','2026-11-29T07:27:43.574+00:00',NULL,15,NULL);
INSERT INTO "slots" VALUES(15,3,'recheck','reviewer-3','2026-11-29T07:27:43.593+00:00',NULL,16,NULL);
INSERT INTO "slots" VALUES(16,5,'rate','annotator-1','2026-11-29T07:27:43.614+00:00',NULL,17,NULL);
INSERT INTO "slots" VALUES(17,6,'rate','annotator-1','2026-11-29T07:27:43.635+00:00',NULL,18,NULL);
INSERT INTO "slots" VALUES(18,5,'rate','annotator-2','2026-11-29T07:27:43.653+00:00',NULL,63,NULL);
INSERT INTO "slots" VALUES(19,6,'rate','annotator-3','2026-11-29T07:27:43.680+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(20,6,'rate','annotator-4','2026-11-29T07:27:43.723+00:00',NULL,22,NULL);
INSERT INTO "slots" VALUES(21,8,'rate','annotator-3','2026-11-29T07:27:43.766+00:00',NULL,23,NULL);
INSERT INTO "slots" VALUES(22,7,'gold','annotator-3','2026-11-29T07:27:43.806+00:00',NULL,24,NULL);
INSERT INTO "slots" VALUES(23,4,'gold','annotator-1','2026-11-29T07:27:43.816+00:00',NULL,30,NULL);
INSERT INTO "slots" VALUES(24,9,'rate','annotator-3','2026-11-29T07:27:43.835+00:00',NULL,26,NULL);
INSERT INTO "slots" VALUES(25,4,'gold','annotator-2','2026-11-29T07:27:43.850+00:00',NULL,27,NULL);
INSERT INTO "slots" VALUES(26,8,'rate','annotator-4','2026-11-29T07:27:43.888+00:00',NULL,28,NULL);
INSERT INTO "slots" VALUES(27,10,'rate','annotator-3','2026-11-29T07:27:43.906+00:00',NULL,29,NULL);
INSERT INTO "slots" VALUES(28,8,'check','reviewer-2','2026-11-29T07:27:43.927+00:00',NULL,31,NULL);
INSERT INTO "slots" VALUES(29,9,'rate','annotator-2','2026-11-29T07:27:43.946+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(30,8,'check','reviewer-3','2026-11-29T07:27:43.955+00:00',NULL,33,NULL);
INSERT INTO "slots" VALUES(31,4,'gold','annotator-4','2026-11-29T07:27:43.966+00:00','2026-11-29T07:27:44.311+00:00',NULL,NULL);
INSERT INTO "slots" VALUES(32,11,'rate','annotator-3','2026-11-29T07:27:43.967+00:00',NULL,34,NULL);
INSERT INTO "slots" VALUES(33,15,'gold','annotator-3','2026-11-29T07:27:43.990+00:00',NULL,48,NULL);
INSERT INTO "slots" VALUES(34,8,'adjudication','lead','2026-11-29T07:27:44.014+00:00',NULL,36,NULL);
INSERT INTO "slots" VALUES(35,12,'rate','annotator-3','2026-11-29T07:27:44.057+00:00',NULL,37,NULL);
INSERT INTO "slots" VALUES(36,9,'rate','annotator-1','2026-11-29T07:27:44.114+00:00',NULL,38,NULL);
INSERT INTO "slots" VALUES(37,8,'recheck','reviewer-2','2026-11-29T07:27:44.151+00:00',NULL,39,NULL);
INSERT INTO "slots" VALUES(38,10,'rate','annotator-2','2026-11-29T07:27:44.167+00:00',NULL,40,NULL);
INSERT INTO "slots" VALUES(39,11,'rate','annotator-1','2026-11-29T07:27:44.191+00:00',NULL,41,NULL);
INSERT INTO "slots" VALUES(40,12,'rate','annotator-2','2026-11-29T07:27:44.251+00:00',NULL,42,NULL);
INSERT INTO "slots" VALUES(41,10,'recheck','reviewer-3','2026-11-29T07:27:44.286+00:00',NULL,65,NULL);
INSERT INTO "slots" VALUES(42,13,'rate','annotator-3','2026-11-29T07:27:44.334+00:00',NULL,44,NULL);
INSERT INTO "slots" VALUES(43,12,'adjudication','lead','2026-11-29T07:27:44.360+00:00',NULL,45,NULL);
INSERT INTO "slots" VALUES(44,13,'rate','annotator-1','2026-11-29T07:27:44.395+00:00',NULL,46,NULL);
INSERT INTO "slots" VALUES(45,12,'recheck','reviewer-2','2026-11-29T07:27:44.419+00:00',NULL,47,NULL);
INSERT INTO "slots" VALUES(46,13,'recheck','reviewer-2','2026-11-29T07:27:44.446+00:00',NULL,49,NULL);
INSERT INTO "slots" VALUES(47,7,'gold','annotator-1','2026-11-29T07:27:44.466+00:00',NULL,50,NULL);
INSERT INTO "slots" VALUES(48,14,'rate','annotator-1','2026-11-29T07:27:44.483+00:00',NULL,52,NULL);
INSERT INTO "slots" VALUES(49,14,'rate','annotator-4','2026-11-29T07:27:44.492+00:00',NULL,59,NULL);
INSERT INTO "slots" VALUES(50,16,'rate','annotator-1','2026-11-29T07:27:44.530+00:00',NULL,53,NULL);
INSERT INTO "slots" VALUES(51,13,'adjudication','lead','2026-11-29T07:27:44.540+00:00',NULL,NULL,NULL);
INSERT INTO "slots" VALUES(52,16,'rate','annotator-3','2026-11-29T07:27:44.553+00:00',NULL,54,NULL);
INSERT INTO "slots" VALUES(53,17,'rate','annotator-3','2026-11-29T07:27:44.568+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(54,17,'rate','annotator-1','2026-11-29T07:27:44.587+00:00',NULL,56,NULL);
INSERT INTO "slots" VALUES(55,16,'check','reviewer-3','2026-11-29T07:27:44.603+00:00',NULL,58,NULL);
INSERT INTO "slots" VALUES(56,15,'gold','annotator-1','2026-11-29T07:27:44.647+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(57,7,'gold','annotator-2','2026-11-29T07:27:45.110+00:00',NULL,60,NULL);
INSERT INTO "slots" VALUES(58,14,'check','reviewer-3','2026-11-29T07:27:45.154+00:00',NULL,61,NULL);
INSERT INTO "slots" VALUES(59,17,'rate','annotator-2','2026-11-29T07:27:45.170+00:00',NULL,62,NULL);
INSERT INTO "slots" VALUES(60,5,'recheck','reviewer-1','2026-11-29T07:27:45.209+00:00',NULL,64,NULL);
INSERT INTO "slots" VALUES(61,14,'check','reviewer-1','2026-11-29T07:27:45.262+00:00',NULL,NULL,'too dark');
CREATE TABLE totals (stage TEXT PRIMARY KEY, needed INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "totals" VALUES('audit',3);
INSERT INTO "totals" VALUES('check',6);
INSERT INTO "totals" VALUES('gold',12);
INSERT INTO "totals" VALUES('rate',28);
INSERT INTO "totals" VALUES('recheck',11);
INSERT INTO "totals" VALUES('training',4);
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, person TEXT NOT NULL REFERENCES people, senior TEXT NOT NULL,
    passed INTEGER NOT NULL, comment TEXT NOT NULL, at TEXT NOT NULL
);
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
INSERT INTO "sqlite_sequence" VALUES('slots',61);
INSERT INTO "sqlite_sequence" VALUES('labels',66);
COMMIT;
