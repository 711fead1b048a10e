-- Estimates from a part of the bids, with intervals; the same rows are kept wherever and however often the query runs.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

SELECT channel, COUNT(*) AS bids, COUNT(price) AS priced, SUM(price) AS volume, AVG(price) AS average
FROM bid WINDOW(RANGE 12 HOURS SLIDE 6 HOURS)
GROUP BY channel
WITH (shedding = sample, sample = 0.5);

SELECT bidder_id % 2 AS half, CAST(COUNT(*) / 10 AS INT) AS tens, MIN(price) AS lowest, MAX(price) AS highest
FROM bid WINDOW(RANGE 12 HOURS SLIDE 6 HOURS)
WHERE price > 20
GROUP BY bidder_id % 2
HAVING COUNT(*) > 3
WITH (shedding = sample, sample = 0.5, approximate = yes);
