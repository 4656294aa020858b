-- Reserves costs in a project's rolling 24 hours, and a slice to spend later.
-- KEYS: era, project
-- ARGV: deadline, era, hour, ceiling, requested slice, units that must remain for a slice, returned units, costs...
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return {1, now} end
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return {2, now} end
local hour, ceiling = tonumber(ARGV[3]), tonumber(ARGV[4])
local slice, least, back = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local hours = redis.call('HGETALL', KEYS[2])
local used, own, reply = 0, 0, {}
for n = 1, #hours, 2 do
  local at, units = tonumber(hours[n]), tonumber(hours[n + 1])
  if at == hour then
    own = units
  elseif at + 23 >= hour then
    used = used + units
    reply[#reply + 1] = at
    reply[#reply + 1] = units
  elseif at + 25 < hour then
    redis.call('HDEL', KEYS[2], hours[n])
  end
end
local before = own
own = math.max(own - back, 0)
used = used + own
local granted, units = {}, 0
for n = 8, #ARGV do
  local cost = tonumber(ARGV[n])
  if cost == 0 or used < ceiling then
    used = used + cost
    units = units + cost
    granted[#granted + 1] = '1'
  else
    granted[#granted + 1] = '0'
  end
end
if slice > 0 and ceiling - used < least then slice = 0 end
own = own + units + slice
if own ~= before then
  redis.call('HSET', KEYS[2], ARGV[3], string.format('%.0f', own))
  redis.call('EXPIRE', KEYS[2], 100000)
end
return {0, now, table.concat(granted), slice, hour, own, unpack(reply)}
