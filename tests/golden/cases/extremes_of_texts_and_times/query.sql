-- MIN and MAX follow the order of texts and of times; NULL does not count.
CREATE STREAM bid (item_id INT, bidder_id INT, price DOUBLE, channel STRING, at TIMESTAMP)
  FROM '../../data/bid.csv' TIMESTAMP BY at DELAY 5 MINUTES;

SELECT bidder_id DIV 4 AS quarter, MIN(channel) AS first_channel, MAX(channel) AS last_channel,
       MIN(at) AS earliest, MAX(at) AS latest
FROM bid WINDOW(RANGE 25 MINUTES)
GROUP BY bidder_id DIV 4;
