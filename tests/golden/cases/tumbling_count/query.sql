-- How many bids there were in each hour, by channel; no channel is a channel of its own.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

SELECT channel, COUNT(*) AS bids, COUNT(price) AS priced, SUM(price) AS volume
FROM bid WINDOW(RANGE 1 HOUR SLIDE 1 HOUR)
GROUP BY channel;
