-- People who registered in the last hour, by city; an object is its text.
CREATE STREAM person (person_id INT, name STRING, city STRING, email STRING, address STRING, at TIMESTAMP)
  FROM '../../data/person.jsonl' TIMESTAMP BY at DELAY 15 MINUTES;

SELECT COALESCE(city, '?') AS city, COUNT(*) AS people, COUNT(email) AS reachable, MIN(name) AS first_name,
       MAX(address) AS last_address
FROM person WINDOW(RANGE 1 HOUR SLIDE 15 MINUTES)
GROUP BY COALESCE(city, '?');
