-- Adds counts from elsewhere. A receipt makes repeated calls add them only once.
-- KEYS: era, receipt, counters...
-- ARGV: era, then for each counter: hour (empty: a window), the count to add (may be negative), seconds to keep it
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {2, now} end
if not redis.call('SET', KEYS[2], '1', 'NX', 'EX', 7200) then return {0, now} end
local at = 2
for n = 3, #KEYS do
  local hour, by, kept = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  if hour == '' then
    if redis.call('INCRBY', KEYS[n], by) == tonumber(by) then redis.call('EXPIRE', KEYS[n], kept) end
  else
    if redis.call('HINCRBY', KEYS[n], hour, by) < 0 then redis.call('HSET', KEYS[n], hour, '0') end
    redis.call('EXPIRE', KEYS[n], kept)
  end
end
return {0, now}
