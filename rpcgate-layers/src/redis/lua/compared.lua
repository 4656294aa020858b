-- Ends a comparison: if it was complete, one less is due. A pause begins before the next one.
-- KEYS: comparison under way, comparisons left, pause between comparisons
-- ARGV: comparison, whether it was complete (1) or not (0), seconds of the pause
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {1, now} end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[3], '1', 'EX', ARGV[3])
if ARGV[2] == '1' and redis.call('DECR', KEYS[2]) <= 0 then redis.call('DEL', KEYS[2]) end
return {0, now}
