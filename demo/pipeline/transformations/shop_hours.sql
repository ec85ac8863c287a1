-- Orders and revenue of each shop by hour of the day, over all days.
CREATE MATERIALIZED VIEW shop_hours AS
SELECT shop, hour(timestamp) AS hour, count(*) AS orders, round(sum(amount), 2) AS revenue
FROM paid_orders
GROUP BY shop, hour(timestamp)
