-- Selection (QL-03) with every kind of predicate.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

SELECT item_id, bidder_id, price, channel
FROM bid
WHERE (item_id IN (1007, 1020, 1033, 1044, 1051) OR channel LIKE 'web_%' OR channel IS NULL)
  AND price NOT BETWEEN 40 AND 60
  AND NOT (bidder_id BETWEEN 5 AND 7)
  AND channel IS DISTINCT FROM 'app';
