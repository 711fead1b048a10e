CREATE STREAM bid (item INT, price DOUBLE, bidder STRING, at TIMESTAMP)
  FROM 'examples/auction/bid.csv'     -- a file, a folder, a glob; CSV, JSON lines or Parquet; or generator://
  TIMESTAMP BY at                     -- application time: TIMESTAMP is ISO 8601, BIGINT is microseconds
  DELAY 5 SECONDS;                    -- how late an element may arrive

CREATE STREAM sold (item INT, at TIMESTAMP)
  FROM 'examples/auction/sold.csv' TIMESTAMP BY at;

-- The highest bid of the last ten minutes on every item that is sold.
SELECT b.item, MAX(b.price) AS price, COUNT(*) AS bids
FROM bid b WINDOW(RANGE 10 MINUTES), sold s WINDOW(NOW)
WHERE b.item = s.item
GROUP BY b.item;
