-- FW.ACQUIRE: a fixed window.
--
-- KEYS[1]  the limiter
-- ARGV[1]  quantity
-- ARGV[2]  limit, units
-- ARGV[3]  window, microseconds
-- ARGV[4]  where after the epoch a window starts, microseconds, less than the
--          window; or -1 if it starts with the first request
-- ARGV[5]  now_us, microseconds since the epoch instead of TIME, in tests
-- State    fw:<units> <us>, what was admitted and the moment at which the window
--          ends, in microseconds since the epoch, expiring then
-- Reply    limited, limit, remaining, retry_after and reset_after in
--          milliseconds, rounded up

if redis.replicate_commands then redis.replicate_commands() end -- Redis before 5

local now
if ARGV[5] then
  now = ARGV[5] + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1e6 + time[2]
end

local quantity, limit, window, start = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0

local used, ends = 0, 0
local state = redis.pcall('GET', KEYS[1])
if state then
  if type(state) == 'table' then return state end -- an error
  used, ends = string.match(state, '^fw:(%d+) (%d+)$')
  used, ends = tonumber(used or '', 10), tonumber(ends or '', 10)
  if not (used and ends) or used >= 2^53 or ends >= 2^53 then
    return redis.error_reply('ERR value is not a state of FW.ACQUIRE')
  end
end
if ends <= now then
  used, ends = 0, now
  if start >= 0 then ends = now + window - (now - start) % window end
end

local limited, retry_after = 0, -1
if quantity >= 0 and used + quantity > limit then
  limited = 1
  if quantity <= limit then retry_after = math.ceil((ends - now) / 1e3) end
elseif quantity > 0 or quantity < 0 and used > 0 then
  used = used + quantity
  if used < 0 then used = 0 end
  if ends == now then ends = now + window end
  local ttl_ms = math.ceil((ends - now) / 1e3)
  local set = redis.pcall('SET', KEYS[1], string.format('fw:%.0f %.0f', used, ends), 'PX', ttl_ms)
  if set.err then return set end
end

local remaining = limit - used
if remaining < 0 then remaining = 0 end
return {limited, limit, remaining, retry_after, math.ceil((ends - now) / 1e3)}
