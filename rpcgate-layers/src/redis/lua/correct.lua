-- Corrects counters after a comparison with the records: subtracts each counter's surplus, and raises a counter that is
-- below its minimum. Does nothing if another comparison has replaced this one.
-- KEYS: era, comparison under way, count of lowerings, counters...
-- ARGV: era, comparison, then for each counter: hour (empty: a window), surplus, minimum, seconds to keep it
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {2, now} end
if redis.call('GET', KEYS[2]) ~= ARGV[2] then return {1, now} end
local at, raised, lowered = 3, 0, 0
for n = 4, #KEYS do
  local hour, surplus, least, kept = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), ARGV[at + 3]
  at = at + 4
  local value
  if hour == '' then value = redis.call('GET', KEYS[n]) else value = redis.call('HGET', KEYS[n], hour) end
  local count = tonumber(value or '0')
  local right = math.max(count - surplus, least)
  if right ~= count then
    local text = string.format('%.0f', right)
    if hour ~= '' then
      redis.call('HSET', KEYS[n], hour, text)
      redis.call('EXPIRE', KEYS[n], kept)
    elseif value then
      redis.call('SET', KEYS[n], text, 'KEEPTTL')
    else
      redis.call('SET', KEYS[n], text, 'EX', kept)
    end
    if right > count then raised = raised + 1 else lowered = lowered + 1 end
  end
end
if lowered > 0 then redis.call('INCR', KEYS[3]) end
return {0, now, raised, lowered}
