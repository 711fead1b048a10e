-- Posts that are about the same, and measurements at the two ends of a paper machine that are of the same sheet.
CREATE STREAM post (post_id INT, words ARRAY<STRING>, topics ARRAY<INT>, at TIMESTAMP)
  FROM '../../data/post.jsonl' TIMESTAMP BY at DELAY 10 SECONDS;

CREATE STREAM wet_end (reel INT, thickness DOUBLE, at TIMESTAMP)
  FROM '../../data/wet_end.csv' TIMESTAMP BY at DELAY 2 SECONDS;

CREATE STREAM dry_end (reel INT, thickness DOUBLE, at TIMESTAMP)
  FROM '../../data/dry_end.csv' TIMESTAMP BY at DELAY 2 SECONDS;

SELECT a.post_id AS one, b.post_id AS other
FROM post a WINDOW(RANGE 30 SECONDS), post b WINDOW(RANGE 20 SECONDS)
WHERE OVERLAP(a.topics, b.topics) >= 2 AND a.post_id < b.post_id;

SELECT a.post_id AS one, b.post_id AS other
FROM post a WINDOW(RANGE 30 SECONDS), post b
WHERE 2 < OVERLAP(b.words, a.words) AND a.post_id <> b.post_id;

SELECT a.reel AS wet, b.reel AS dry, COUNT(*) AS alike, MIN(a.thickness) AS least
FROM wet_end a WINDOW(RANGE 10 SECONDS), dry_end b WINDOW(RANGE 5 SECONDS)
WHERE ABS(a.thickness - b.thickness) <= 0.5
GROUP BY a.reel, b.reel;

SELECT a.thickness AS wet, b.thickness AS dry
FROM wet_end a WINDOW(RANGE 10 SECONDS), dry_end b WINDOW(RANGE 5 SECONDS)
WHERE ABS(a.thickness - b.thickness) < 0.2 AND a.reel < b.reel;
