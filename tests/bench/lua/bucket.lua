-- A token bucket in a hash, as it is commonly written: KEYS[1], capacity, tokens per second, cost.
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
local capacity, rate, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(held[1]) or capacity
local at = tonumber(held[2]) or now
tokens = math.min(capacity, tokens + (now - at) * rate)
local allowed = tokens >= cost
local retry = 0
if allowed then
  tokens = tokens - cost
  redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
  redis.call('PEXPIRE', KEYS[1], math.ceil((capacity - tokens) / rate * 1000) + 1000)
else
  retry = math.ceil((cost - tokens) / rate * 1000)
end
return { allowed and 1 or 0, math.floor(tokens), retry, math.ceil((capacity - tokens) / rate * 1000), capacity }
