-- Heartbeat of a gateway. Returns the number of live gateways, and whether counters must be compared with the records.
-- KEYS: era, gateways, comparisons left, comparison under way, pause between comparisons, count of lowerings
-- ARGV: era, gateway, comparisons that it requests, comparisons that are due when a gateway has gone
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {2, now} end
local asked = tonumber(ARGV[3])
local is_new = redis.call('ZADD', KEYS[2], time[1], ARGV[2])
local gone = redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', time[1] - 10)
-- A new gateway that requests nothing was here before: it was silent for so long that it was removed.
if gone > 0 or (is_new == 1 and asked == 0) then asked = math.max(asked, tonumber(ARGV[4])) end
local left = tonumber(redis.call('GET', KEYS[3]) or '0')
if asked > left then
  left = asked
  redis.call('SET', KEYS[3], asked, 'EX', 90000)
end
if asked > 0 then redis.call('DEL', KEYS[5]) end
if redis.call('EXISTS', KEYS[5]) == 1 then left = 0 end
return {
  0, now, redis.call('ZCARD', KEYS[2]), left,
  redis.call('GET', KEYS[6]) or '0', is_new, redis.call('GET', KEYS[4]) or ''
}
