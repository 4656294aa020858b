-- A gateway is there: how many are?
-- KEYS: era, gateways
-- ARGV: era, gateway
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {2, now} end
redis.call('ZADD', KEYS[2], time[1], ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', time[1] - 10)
return {0, now, redis.call('ZCARD', KEYS[2])}
