-- Says how many calls a gateway has sent to nodes in a month each, and returns how many all gateways have sent.
-- Of the gateways that have said nothing for long, the latest keep a field of their own, and what the others have sent is added
-- up in one. No sum changes by that.
-- KEYS: for each node and month: the calls by gateway, when each gateway has said something
-- ARGV: gateway, seconds to keep the keys, seconds of silence, gateways with a field of their own, calls...
local now = redis.call('TIME')[1]
local gateway, kept, most = ARGV[1], ARGV[2], tonumber(ARGV[4])
local silent = string.format('%.0f', now - ARGV[3])
local sums = {}
for n = 1, #KEYS, 2 do
  local calls, seen = KEYS[n], KEYS[n + 1]
  redis.call('HSET', calls, gateway, ARGV[4 + (n + 1) / 2])
  redis.call('ZADD', seen, now, gateway)
  local surplus = redis.call('ZCARD', seen) - most
  if surplus > 0 then
    -- Not too many at once: other scripts wait.
    local gone = redis.call('ZRANGEBYSCORE', seen, '-inf', silent, 'LIMIT', 0, math.min(surplus, 100))
    for _, other in ipairs(gone) do
      local sent = tonumber(redis.call('HGET', calls, other) or '0') or 0
      local before = tonumber(redis.call('HGET', calls, 'gone') or '0') or 0
      redis.call('HSET', calls, 'gone', string.format('%.0f', before + sent))
      redis.call('HDEL', calls, other)
      redis.call('ZREM', seen, other)
    end
  end
  redis.call('EXPIRE', calls, kept)
  redis.call('EXPIRE', seen, kept)
  local sum = 0
  for _, sent in ipairs(redis.call('HVALS', calls)) do sum = sum + (tonumber(sent) or 0) end
  sums[#sums + 1] = string.format('%.0f', sum)
end
return sums
