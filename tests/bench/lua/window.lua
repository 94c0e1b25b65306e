-- An exact trailing window in a sorted set, as it is commonly written: KEYS[1], limit, window in ms.
local now = redis.call('TIME')
local micros = now[1] * 1000000 + now[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', micros - window)
local count = redis.call('ZCARD', KEYS[1])
if count < limit then
  -- The member must be unique: two calls may come in one microsecond.
  redis.call('ZADD', KEYS[1], micros, micros .. ':' .. math.random(1000000))
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { 1, limit - count - 1, 0 }
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return { 0, 0, math.ceil((oldest[2] + window - micros) / 1000) }
