-- Counts requests in a key's windows and its project's second: in all of them or in none.
-- KEYS: era, minute, hour, day[, second]
-- ARGV: deadline, era, weight, limits of minute, hour and day[, of the second]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {1, now} end
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return {2, now} end
local weight = tonumber(ARGV[3])
local used = redis.call('MGET', KEYS[2], KEYS[3], KEYS[4])
local code = 0
if KEYS[5] and tonumber(redis.call('GET', KEYS[5]) or '0') + weight > tonumber(ARGV[7]) then code = 3 end
for n = 1, 3 do
  used[n] = tonumber(used[n] or '0')
  if code == 0 and used[n] + weight > tonumber(ARGV[3 + n]) then code = 4 end
end
if code == 0 then
  local kept = {120, 3900, 90000}
  for n = 1, 3 do
    used[n] = redis.call('INCRBY', KEYS[1 + n], ARGV[3])
    if used[n] == weight then redis.call('EXPIRE', KEYS[1 + n], kept[n]) end
  end
  if KEYS[5] and redis.call('INCRBY', KEYS[5], ARGV[3]) == weight then redis.call('EXPIRE', KEYS[5], 5) end
end
return {code, now, used[1], used[2], used[3]}
