CREATE STREAM trade (symbol STRING, price DOUBLE, shares INT, at TIMESTAMP)
  FROM 'examples/trades/trade.csv' TIMESTAMP BY at DELAY 1 SECOND;

CREATE STREAM subscription (                            -- a row registers, or, if it is not active, terminates
    id STRING, symbol STRING, low DOUBLE, high DOUBLE, shares BIGINT, active BOOLEAN, at TIMESTAMP)
  FROM 'examples/trades/subscription.csv' TIMESTAMP BY at IDLE AFTER 1 SECOND;

-- Notify a subscriber once enough shares have traded in their price range.
CREATE ALERTS traded
  FROM trade t, subscription r
  WHERE t.price BETWEEN r.low AND r.high
  MATCHING symbol
  WHEN TOTAL(t.shares) >= r.shares;
