-- Raises counters to the counts that are known.
-- KEYS: counters...
-- ARGV: for each: hour (empty: a window), minimum, seconds to keep it
local at = 1
for n = 1, #KEYS do
  local hour, least, kept = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  if hour == '' then
    if tonumber(redis.call('GET', KEYS[n]) or '0') < tonumber(least) then
      redis.call('SET', KEYS[n], least, 'EX', kept)
    end
  else
    if tonumber(redis.call('HGET', KEYS[n], hour) or '0') < tonumber(least) then
      redis.call('HSET', KEYS[n], hour, least)
    end
    redis.call('EXPIRE', KEYS[n], kept)
  end
end
local time = redis.call('TIME')
return {0, time[1] * 1000000 + time[2]}
