PRAGMA application_id = 1279607118;
PRAGMA user_version = 4;
BEGIN TRANSACTION;
CREATE TABLE items (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, part TEXT NOT NULL, shown TEXT NOT NULL, hidden TEXT NOT NULL,
    known TEXT, initial TEXT
);
INSERT INTO "items" VALUES(0,'text/1','gold','{"text": "<b>text 1</b>"}','{"model": "secret-model"}','{"rating": "1"}',NULL);
INSERT INTO "items" VALUES(1,'text/9','main','{"text": "<b>text 9</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
INSERT INTO "items" VALUES(2,'text/8','main','{"text": "<b>text 8</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(3,'text/5','main','{"text": "<b>text 5</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(4,'text/10','main','{"text": "<b>text 10</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(5,'text/2','gold','{"text": "<b>text 2</b>"}','{"model": "secret-model"}','{"rating": "1"}',NULL);
INSERT INTO "items" VALUES(6,'text/3','gold','{"text": "<b>text 3</b>"}','{"model": "secret-model"}','{"rating": "1"}','{"rating": "1"}');
INSERT INTO "items" VALUES(7,'text/7','main','{"text": "<b>text 7</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(8,'text/4','main','{"text": "<b>text 4</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(9,'text/0','training','{"text": "<b>text 0</b>"}','{"model": "secret-model"}','{"rating": "1"}','{"rating": "1"}');
INSERT INTO "items" VALUES(10,'text/11','main','{"text": "<b>text 11</b>"}','{"model": "secret-model"}',NULL,NULL);
INSERT INTO "items" VALUES(11,'text/6','main','{"text": "<b>text 6</b>"}','{"model": "secret-model"}',NULL,'{"rating": "1"}');
CREATE TABLE labels (
    id INTEGER PRIMARY KEY AUTOINCREMENT, slot INTEGER NOT NULL REFERENCES slots, form TEXT NOT NULL,
    choices TEXT, comment TEXT NOT NULL, seconds REAL, at TEXT NOT NULL, skipped TEXT
);
INSERT INTO "labels" VALUES(1,1,'form 0',NULL,'',NULL,'2026-11-29T07:24:47.448+00:00','too dark');
INSERT INTO "labels" VALUES(2,2,'form 1','{"rating": "1"}','',1.0,'2026-11-29T07:24:47.480+00:00',NULL);
INSERT INTO "labels" VALUES(3,4,'form 4','{"rating": "0"}','',4.0,'2026-11-29T07:24:47.531+00:00',NULL);
INSERT INTO "labels" VALUES(4,5,'form 8','{"rating": "1"}','',8.0,'2026-11-29T07:24:47.543+00:00',NULL);
INSERT INTO "labels" VALUES(5,7,'form 20','{"rating": "1"}','',20.0,'2026-11-29T07:24:47.614+00:00',NULL);
INSERT INTO "labels" VALUES(6,8,'form 22','{"rating": "1"}','',22.0,'2026-11-29T07:24:47.642+00:00',NULL);
INSERT INTO "labels" VALUES(7,9,'form 23','{"rating": "1"}','',23.0,'2026-11-29T07:24:47.664+00:00',NULL);
INSERT INTO "labels" VALUES(8,10,'form 24','{"rating": "1"}','',24.0,'2026-11-29T07:24:47.700+00:00',NULL);
INSERT INTO "labels" VALUES(9,3,'form 26','{"rating": "1"}','',26.0,'2026-11-29T07:24:47.717+00:00',NULL);
INSERT INTO "labels" VALUES(10,11,'form 27','{"rating": "aside"}','',27.0,'2026-11-29T07:24:47.762+00:00',NULL);
INSERT INTO "labels" VALUES(11,12,'form 28','{"rating": "1"}','',28.0,'2026-11-29T07:24:47.966+00:00',NULL);
INSERT INTO "labels" VALUES(12,13,'form 30','{"rating": "aside"}','',30.0,'2026-11-29T07:24:48.082+00:00',NULL);
INSERT INTO "labels" VALUES(13,14,'form 31','{"rating": "0"}','',31.0,'2026-11-29T07:24:48.221+00:00',NULL);
INSERT INTO "labels" VALUES(14,15,'form 34','{"rating": "1"}','',34.0,'2026-11-29T07:24:48.269+00:00',NULL);
INSERT INTO "labels" VALUES(15,16,'form 35',NULL,'',NULL,'2026-11-29T07:24:48.373+00:00','too dark');
INSERT INTO "labels" VALUES(16,17,'form 44','{"rating": "1"}','',44.0,'2026-11-29T07:24:48.401+00:00',NULL);
INSERT INTO "labels" VALUES(17,18,'form 46','{"rating": "1"}','',46.0,'2026-11-29T07:24:48.422+00:00',NULL);
INSERT INTO "labels" VALUES(18,19,'form 47','{"rating": "1"}','',47.0,'2026-11-29T07:24:48.454+00:00',NULL);
INSERT INTO "labels" VALUES(19,20,'form 50','{"rating": "1"}','comment 50',50.0,'2026-11-29T07:24:48.522+00:00',NULL);
INSERT INTO "labels" VALUES(20,21,'form 51','{"rating": "1"}','',51.0,'2026-11-29T07:24:48.565+00:00',NULL);
INSERT INTO "labels" VALUES(21,12,'change 52','{"rating": "0"}','changed',NULL,'2026-11-29T07:24:48.578+00:00',NULL);
INSERT INTO "labels" VALUES(22,22,'form 53','{"rating": "0"}','comment 53',53.0,'2026-11-29T07:24:48.649+00:00',NULL);
INSERT INTO "labels" VALUES(23,23,'form 56','{"rating": "1"}','',56.0,'2026-11-29T07:24:48.691+00:00',NULL);
INSERT INTO "labels" VALUES(24,24,'form 57',NULL,'',NULL,'2026-11-29T07:24:48.732+00:00','too dark');
INSERT INTO "labels" VALUES(25,25,'label-studio 58','{"rating": "1"}','',58.0,'2026-11-29T07:24:48.782+00:00',NULL);
INSERT INTO "labels" VALUES(26,26,'form 59','{"rating": "1"}','comment 59',59.0,'2026-11-29T07:24:48.874+00:00',NULL);
INSERT INTO "labels" VALUES(27,27,'form 60','{"rating": "1"}','',60.0,'2026-11-29T07:24:48.915+00:00',NULL);
INSERT INTO "labels" VALUES(28,28,'label-studio 62','{"rating": "1"}','comment 62',62.0,'2026-11-29T07:24:48.958+00:00',NULL);
INSERT INTO "labels" VALUES(29,29,'form 65','{"rating": "aside"}','',65.0,'2026-11-29T07:24:48.966+00:00',NULL);
INSERT INTO "labels" VALUES(30,30,'form 69','{"rating": "1"}','comment 69',69.0,'2026-11-29T07:24:49.065+00:00',NULL);
INSERT INTO "labels" VALUES(31,31,'form 70','{"rating": "1"}','',70.0,'2026-11-29T07:24:49.082+00:00',NULL);
INSERT INTO "labels" VALUES(32,32,'form 72','{"rating": "1"}','comment 72',72.0,'2026-11-29T07:24:49.106+00:00',NULL);
INSERT INTO "labels" VALUES(33,33,'form 73',NULL,'',NULL,'2026-11-29T07:24:49.125+00:00','too dark');
INSERT INTO "labels" VALUES(34,35,'form 75','{"rating": "1"}','comment 75',75.0,'2026-11-29T07:24:49.153+00:00',NULL);
INSERT INTO "labels" VALUES(35,34,'form 76','{"rating": "1"}','comment 76',76.0,'2026-11-29T07:24:49.165+00:00',NULL);
INSERT INTO "labels" VALUES(36,36,'form 77','{"rating": "0"}','',77.0,'2026-11-29T07:24:49.180+00:00',NULL);
INSERT INTO "labels" VALUES(37,37,'form 78',NULL,'',NULL,'2026-11-29T07:24:49.200+00:00','too dark');
INSERT INTO "labels" VALUES(38,38,'form 82','{"rating": "1"}','comment 82',82.0,'2026-11-29T07:24:49.209+00:00',NULL);
INSERT INTO "labels" VALUES(39,39,'form 83','{"rating": "1"}','',83.0,'2026-11-29T07:24:49.222+00:00',NULL);
INSERT INTO "labels" VALUES(40,40,'form 84','{"rating": "1"}','comment 84',84.0,'2026-11-29T07:24:49.258+00:00',NULL);
INSERT INTO "labels" VALUES(41,41,'form 85','{"rating": "aside"}','',85.0,'2026-11-29T07:24:49.290+00:00',NULL);
INSERT INTO "labels" VALUES(42,42,'form 87',NULL,'',NULL,'2026-11-29T07:24:49.318+00:00','too dark');
INSERT INTO "labels" VALUES(43,43,'label-studio 88','{"rating": "1"}','',88.0,'2026-11-29T07:24:49.362+00:00',NULL);
INSERT INTO "labels" VALUES(44,44,'form 89','{"rating": "1"}','comment 89',89.0,'2026-11-29T07:24:49.402+00:00',NULL);
INSERT INTO "labels" VALUES(45,45,'form 91','{"rating": "1"}','comment 91',91.0,'2026-11-29T07:24:49.442+00:00',NULL);
INSERT INTO "labels" VALUES(46,46,'form 92','{"rating": "1"}','comment 92',92.0,'2026-11-29T07:24:49.468+00:00',NULL);
INSERT INTO "labels" VALUES(47,48,'form 95','{"rating": "1"}','',95.0,'2026-11-29T07:24:49.514+00:00',NULL);
INSERT INTO "labels" VALUES(48,49,'label-studio 96','{"rating": "1"}','',96.0,'2026-11-29T07:24:49.535+00:00',NULL);
INSERT INTO "labels" VALUES(49,50,'decision 100','{"rating": "0"}','decided',NULL,'2026-11-29T07:24:49.568+00:00',NULL);
INSERT INTO "labels" VALUES(50,34,'change 103','{"rating": "0"}','changed',NULL,'2026-11-29T07:24:49.585+00:00',NULL);
INSERT INTO "labels" VALUES(51,52,'form 107','{"rating": "1"}','comment 107',107.0,'2026-11-29T07:24:49.610+00:00',NULL);
INSERT INTO "labels" VALUES(52,53,'decision 109','{"rating": "0"}','decided',NULL,'2026-11-29T07:24:49.642+00:00',NULL);
INSERT INTO "labels" VALUES(53,54,'form 110','{"rating": "1"}','',110.0,'2026-11-29T07:24:49.649+00:00',NULL);
INSERT INTO "labels" VALUES(54,51,'form 120','{"rating": "1"}','comment 120',120.0,'2026-11-29T07:24:49.670+00:00',NULL);
INSERT INTO "labels" VALUES(55,50,'',NULL,'',NULL,'2026-11-29T07:24:49.676+00:00',NULL);
INSERT INTO "labels" VALUES(56,20,'change 138','{"rating": "1"}','changed',NULL,'2026-11-29T07:24:49.684+00:00',NULL);
INSERT INTO "labels" VALUES(57,50,'decision 167','{"rating": "1"}','decided',NULL,'2026-11-29T07:24:49.713+00:00',NULL);
INSERT INTO "labels" VALUES(58,52,'change 181','{"rating": "1"}','changed',NULL,'2026-11-29T07:24:49.728+00:00',NULL);
INSERT INTO "labels" VALUES(59,56,'decision 188','{"rating": "0"}','decided',NULL,'2026-11-29T07:24:49.770+00:00',NULL);
INSERT INTO "labels" VALUES(60,57,'form 193','{"rating": "1"}','',193.0,'2026-11-29T07:24:49.810+00:00',NULL);
INSERT INTO "labels" VALUES(61,50,'',NULL,'',NULL,'2026-11-29T07:24:49.839+00:00',NULL);
INSERT INTO "labels" VALUES(62,50,'decision 223','{"rating": "0"}','decided',NULL,'2026-11-29T07:24:49.873+00:00',NULL);
INSERT INTO "labels" VALUES(63,20,'change 231','{"rating": "1"}','changed',NULL,'2026-11-29T07:24:49.883+00:00',NULL);
INSERT INTO "labels" VALUES(64,50,'decision 352','{"rating": "0"}','decided',NULL,'2026-11-29T07:24:49.995+00:00',NULL);
INSERT INTO "labels" VALUES(65,54,'change 366','{"rating": "1"}','changed',NULL,'2026-11-29T07:24:50.020+00:00',NULL);
INSERT INTO "labels" VALUES(66,50,'',NULL,'',NULL,'2026-11-29T07:24:50.065+00:00',NULL);
INSERT INTO "labels" VALUES(67,10,'change 425','{"rating": "1"}','changed',NULL,'2026-11-29T07:24:50.096+00:00',NULL);
INSERT INTO "labels" VALUES(68,48,'change 440','{"rating": "0"}','changed',NULL,'2026-11-29T07:24:50.139+00:00',NULL);
INSERT INTO "labels" VALUES(69,13,'change 466','{"rating": "1"}','changed',NULL,'2026-11-29T07:24:50.180+00:00',NULL);
INSERT INTO "labels" VALUES(70,54,'change 535','{"rating": "1"}','changed',NULL,'2026-11-29T07:24:50.267+00:00',NULL);
INSERT INTO "labels" VALUES(71,50,'decision 578','{"rating": "0"}','decided',NULL,'2026-11-29T07:24:50.308+00:00',NULL);
INSERT INTO "labels" VALUES(72,40,'change 586','{"rating": "0"}','changed',NULL,'2026-11-29T07:24:50.338+00:00',NULL);
INSERT INTO "labels" VALUES(73,20,'change 588','{"rating": "0"}','changed',NULL,'2026-11-29T07:24:50.352+00:00',NULL);
INSERT INTO "labels" VALUES(74,50,'',NULL,'',NULL,'2026-11-29T07:24:50.371+00:00',NULL);
CREATE TABLE people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, team TEXT NOT NULL, token TEXT NOT NULL UNIQUE, called TEXT UNIQUE,
    is_closed INTEGER NOT NULL DEFAULT 0, num_labelled INTEGER NOT NULL DEFAULT 0,
    num_in_rounds INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO "people" VALUES('annotator-1','annotator','annotator','wNqXnbvKA39EyOOabM-3uHZa0K5y3EY9','Ana',0,12,8);
INSERT INTO "people" VALUES('annotator-2','annotator','annotator','vBM236p6zIOw6dnm1vkdzJzbLd1HiEH7',NULL,1,5,3);
INSERT INTO "people" VALUES('annotator-3','annotator','annotator','oLItggVamnP-Bhs0kYtdZMZJW3sC5xKI',NULL,0,5,3);
INSERT INTO "people" VALUES('annotator-4','annotator','annotator','go4LbGqmMmqkvmwICQT_8nO6u4cZZXnf',NULL,0,8,6);
INSERT INTO "people" VALUES('lead','lead','','-p6ACTReY7iQWVkHov1St-xlyyxn3vE7',NULL,0,2,8);
INSERT INTO "people" VALUES('reviewer-1','annotator','reviewer','YJXfMFdhrNdhjQzcEGnQ1wval2kxvtIV',NULL,0,7,7);
INSERT INTO "people" VALUES('reviewer-2','annotator','reviewer','nFwtH2aV0HwAC1If-WpWS0TNsPp5w4Cw',NULL,0,1,1);
INSERT INTO "people" VALUES('reviewer-3','annotator','reviewer','YwlUO3HskwHjTcqeBHxiihfrpR5J1x8F',NULL,0,7,7);
CREATE TABLE places (
    item INTEGER NOT NULL REFERENCES items, stage TEXT NOT NULL, part TEXT NOT NULL, after TEXT,
    needed INTEGER NOT NULL, taken INTEGER NOT NULL DEFAULT 0, given INTEGER NOT NULL DEFAULT 0,
    is_free INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL,
    PRIMARY KEY (item, stage)
) WITHOUT ROWID;
INSERT INTO "places" VALUES(0,'gold','gold',NULL,4,4,4,0,0);
INSERT INTO "places" VALUES(1,'audit','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(1,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(1,'recheck','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(2,'audit','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(2,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(2,'recheck','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(3,'check','main','rate',2,2,2,0,0);
INSERT INTO "places" VALUES(3,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(3,'recheck','main','adjudication',1,1,1,0,1);
INSERT INTO "places" VALUES(4,'check','main','rate',2,2,2,0,0);
INSERT INTO "places" VALUES(4,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(4,'recheck','main','check',1,1,1,0,1);
INSERT INTO "places" VALUES(5,'gold','gold',NULL,4,2,2,1,0);
INSERT INTO "places" VALUES(6,'gold','gold',NULL,4,1,1,1,0);
INSERT INTO "places" VALUES(7,'audit','main','check',1,1,1,0,1);
INSERT INTO "places" VALUES(7,'check','main','rate',2,2,2,0,0);
INSERT INTO "places" VALUES(7,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(7,'recheck','main','check',1,1,1,0,1);
INSERT INTO "places" VALUES(8,'check','main','rate',2,2,2,0,0);
INSERT INTO "places" VALUES(8,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(8,'recheck','main','adjudication',1,1,1,0,1);
INSERT INTO "places" VALUES(9,'training','training',NULL,4,3,3,1,0);
INSERT INTO "places" VALUES(10,'check','main','rate',0,0,0,0,0);
INSERT INTO "places" VALUES(10,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(10,'recheck','main','adjudication',0,0,0,0,1);
INSERT INTO "places" VALUES(11,'audit','main','rate',1,1,1,0,1);
INSERT INTO "places" VALUES(11,'rate','main',NULL,2,2,2,0,0);
INSERT INTO "places" VALUES(11,'recheck','main','rate',1,1,1,0,1);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "settings" VALUES('made','"2026-11-29T07:24:47.375+00:00"');
INSERT INTO "settings" VALUES('secret','"c4ef4751979c0d9679b57c9dde29acd5e4710600fa519d61a541bbaef5d8a7bb"');
INSERT INTO "settings" VALUES('study','{"flow": "studied", "source": "", "people": {"annotator": {"count": 4, "quota": 500, "names": ["Zoe"], "limits": []}, "reviewer": {"count": 3, "quota": null, "names": [], "limits": []}}, "rounds": [{"name": "rate", "people": "annotator", "per_item": 2, "sample": null, "apart": null, "final": false, "seconds": null}, {"name": "check", "people": "reviewer", "per_item": 2, "sample": 5, "apart": null, "final": false, "seconds": null}, {"name": "audit", "people": "annotator", "per_item": 1, "sample": 4, "apart": [], "final": true, "seconds": null}, {"name": "recheck", "people": "reviewer", "per_item": 1, "sample": null, "apart": ["rate", "audit"], "final": true, "seconds": null}], "qualification": 0, "seniors": 0, "training": "training.jsonl", "gold": {"labels": "gold.jsonl", "every": 3}}');
CREATE TABLE slots (
    id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL REFERENCES items, stage TEXT NOT NULL,
    person TEXT NOT NULL REFERENCES people, since TEXT NOT NULL, released TEXT, label INTEGER, skipped TEXT
);
INSERT INTO "slots" VALUES(1,9,'training','annotator-4','2026-11-29T07:24:47.438+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(2,9,'training','annotator-3','2026-11-29T07:24:47.469+00:00',NULL,2,NULL);
INSERT INTO "slots" VALUES(3,1,'rate','annotator-3','2026-11-29T07:24:47.501+00:00',NULL,9,NULL);
INSERT INTO "slots" VALUES(4,9,'training','annotator-1','2026-11-29T07:24:47.514+00:00',NULL,3,NULL);
INSERT INTO "slots" VALUES(5,1,'rate','annotator-4','2026-11-29T07:24:47.538+00:00',NULL,4,NULL);
INSERT INTO "slots" VALUES(6,9,'training','annotator-2','2026-11-29T07:24:47.548+00:00','2026-11-29T07:24:47.572+00:00',NULL,NULL);
INSERT INTO "slots" VALUES(7,2,'rate','annotator-4','2026-11-29T07:24:47.598+00:00',NULL,5,NULL);
INSERT INTO "slots" VALUES(8,3,'rate','annotator-4','2026-11-29T07:24:47.630+00:00',NULL,6,NULL);
INSERT INTO "slots" VALUES(9,2,'rate','annotator-1','2026-11-29T07:24:47.654+00:00',NULL,7,NULL);
INSERT INTO "slots" VALUES(10,2,'recheck','reviewer-1','2026-11-29T07:24:47.679+00:00',NULL,67,NULL);
INSERT INTO "slots" VALUES(11,1,'recheck','reviewer-1','2026-11-29T07:24:47.749+00:00',NULL,10,NULL);
INSERT INTO "slots" VALUES(12,0,'gold','annotator-4','2026-11-29T07:24:47.826+00:00',NULL,21,NULL);
INSERT INTO "slots" VALUES(13,9,'training','annotator-2','2026-11-29T07:24:48.065+00:00',NULL,69,NULL);
INSERT INTO "slots" VALUES(14,1,'audit','annotator-1','2026-11-29T07:24:48.101+00:00',NULL,13,NULL);
INSERT INTO "slots" VALUES(15,2,'audit','annotator-1','2026-11-29T07:24:48.255+00:00',NULL,14,NULL);
INSERT INTO "slots" VALUES(16,3,'rate','annotator-2','2026-11-29T07:24:48.346+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(17,3,'rate','annotator-3','2026-11-29T07:24:48.390+00:00',NULL,16,NULL);
INSERT INTO "slots" VALUES(18,3,'check','reviewer-1','2026-11-29T07:24:48.415+00:00',NULL,17,NULL);
INSERT INTO "slots" VALUES(19,4,'rate','annotator-2','2026-11-29T07:24:48.439+00:00',NULL,18,NULL);
INSERT INTO "slots" VALUES(20,0,'gold','annotator-1','2026-11-29T07:24:48.494+00:00',NULL,73,NULL);
INSERT INTO "slots" VALUES(21,4,'rate','annotator-4','2026-11-29T07:24:48.542+00:00',NULL,20,NULL);
INSERT INTO "slots" VALUES(22,3,'check','reviewer-3','2026-11-29T07:24:48.622+00:00',NULL,22,NULL);
INSERT INTO "slots" VALUES(23,7,'rate','annotator-1','2026-11-29T07:24:48.673+00:00',NULL,23,NULL);
INSERT INTO "slots" VALUES(24,8,'rate','annotator-1','2026-11-29T07:24:48.693+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(25,7,'rate','annotator-2','2026-11-29T07:24:48.748+00:00',NULL,25,NULL);
INSERT INTO "slots" VALUES(26,4,'check','reviewer-3','2026-11-29T07:24:48.819+00:00',NULL,26,NULL);
INSERT INTO "slots" VALUES(27,8,'rate','annotator-3','2026-11-29T07:24:48.901+00:00',NULL,27,NULL);
INSERT INTO "slots" VALUES(28,4,'check','reviewer-1','2026-11-29T07:24:48.948+00:00',NULL,28,NULL);
INSERT INTO "slots" VALUES(29,4,'recheck','reviewer-3','2026-11-29T07:24:48.962+00:00',NULL,29,NULL);
INSERT INTO "slots" VALUES(30,8,'rate','annotator-4','2026-11-29T07:24:48.979+00:00',NULL,30,NULL);
INSERT INTO "slots" VALUES(31,7,'check','reviewer-1','2026-11-29T07:24:49.070+00:00',NULL,31,NULL);
INSERT INTO "slots" VALUES(32,7,'check','reviewer-3','2026-11-29T07:24:49.098+00:00',NULL,32,NULL);
INSERT INTO "slots" VALUES(33,7,'audit','annotator-4','2026-11-29T07:24:49.120+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(34,7,'recheck','reviewer-1','2026-11-29T07:24:49.134+00:00',NULL,50,NULL);
INSERT INTO "slots" VALUES(35,5,'gold','annotator-4','2026-11-29T07:24:49.147+00:00',NULL,34,NULL);
INSERT INTO "slots" VALUES(36,8,'check','reviewer-1','2026-11-29T07:24:49.178+00:00',NULL,36,NULL);
INSERT INTO "slots" VALUES(37,8,'check','reviewer-2','2026-11-29T07:24:49.189+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(38,0,'gold','annotator-2','2026-11-29T07:24:49.205+00:00',NULL,38,NULL);
INSERT INTO "slots" VALUES(39,7,'audit','annotator-1','2026-11-29T07:24:49.212+00:00',NULL,39,NULL);
INSERT INTO "slots" VALUES(40,0,'gold','annotator-3','2026-11-29T07:24:49.246+00:00',NULL,72,NULL);
INSERT INTO "slots" VALUES(41,10,'rate','annotator-2','2026-11-29T07:24:49.274+00:00',NULL,41,NULL);
INSERT INTO "slots" VALUES(42,10,'rate','annotator-4','2026-11-29T07:24:49.307+00:00',NULL,NULL,'too dark');
INSERT INTO "slots" VALUES(43,5,'gold','annotator-1','2026-11-29T07:24:49.340+00:00',NULL,43,NULL);
INSERT INTO "slots" VALUES(44,10,'rate','annotator-1','2026-11-29T07:24:49.385+00:00',NULL,44,NULL);
INSERT INTO "slots" VALUES(45,11,'rate','annotator-4','2026-11-29T07:24:49.426+00:00',NULL,45,NULL);
INSERT INTO "slots" VALUES(46,11,'rate','annotator-1','2026-11-29T07:24:49.462+00:00',NULL,46,NULL);
INSERT INTO "slots" VALUES(47,2,'adjudication','lead','2026-11-29T07:24:49.476+00:00',NULL,NULL,NULL);
INSERT INTO "slots" VALUES(48,11,'recheck','reviewer-3','2026-11-29T07:24:49.490+00:00',NULL,68,NULL);
INSERT INTO "slots" VALUES(49,11,'audit','annotator-1','2026-11-29T07:24:49.530+00:00',NULL,48,NULL);
INSERT INTO "slots" VALUES(50,10,'adjudication','lead','2026-11-29T07:24:49.544+00:00',NULL,NULL,NULL);
INSERT INTO "slots" VALUES(51,6,'gold','annotator-1','2026-11-29T07:24:49.589+00:00',NULL,54,NULL);
INSERT INTO "slots" VALUES(52,8,'check','reviewer-3','2026-11-29T07:24:49.602+00:00',NULL,58,NULL);
INSERT INTO "slots" VALUES(53,3,'adjudication','lead','2026-11-29T07:24:49.630+00:00',NULL,52,NULL);
INSERT INTO "slots" VALUES(54,3,'recheck','reviewer-2','2026-11-29T07:24:49.646+00:00',NULL,70,NULL);
INSERT INTO "slots" VALUES(55,1,'adjudication','lead','2026-11-29T07:24:49.658+00:00',NULL,NULL,NULL);
INSERT INTO "slots" VALUES(56,8,'adjudication','lead','2026-11-29T07:24:49.751+00:00',NULL,59,NULL);
INSERT INTO "slots" VALUES(57,8,'recheck','reviewer-3','2026-11-29T07:24:49.798+00:00',NULL,60,NULL);
INSERT INTO "slots" VALUES(58,11,'adjudication','lead','2026-11-29T07:24:49.902+00:00',NULL,NULL,NULL);
INSERT INTO "slots" VALUES(59,7,'adjudication','lead','2026-11-29T07:24:49.935+00:00',NULL,NULL,NULL);
INSERT INTO "slots" VALUES(60,4,'adjudication','lead','2026-11-29T07:24:50.207+00:00',NULL,NULL,NULL);
CREATE TABLE totals (stage TEXT PRIMARY KEY, needed INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "totals" VALUES('audit',4);
INSERT INTO "totals" VALUES('check',8);
INSERT INTO "totals" VALUES('gold',12);
INSERT INTO "totals" VALUES('rate',16);
INSERT INTO "totals" VALUES('recheck',7);
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
INSERT INTO "sqlite_sequence" VALUES('slots',60);
INSERT INTO "sqlite_sequence" VALUES('labels',74);
COMMIT;
