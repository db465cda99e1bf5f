-- CL.THROTTLE: GCRA as redis-cell 0.5.0 does it.
--
-- KEYS[1]  the limiter
-- ARGV     1, 2  increment: quantity * emission interval, seconds and nanoseconds
--          3, 4  tolerance: emission interval * limit, seconds and nanoseconds
--          5     limit: max_burst + 1
--          6     unit of the remaining quantity: the emission interval in whole
--                microseconds, or if it has none in nanoseconds, negative
--          7     now in microseconds since the epoch, instead of TIME (tests)
-- State    the theoretical arrival time (TAT) in nanoseconds since the epoch, in
--          decimal; it expires when it has come
-- Reply    limited 0 or 1, limit, remaining, seconds to retry or -1, seconds to reset
--
-- Nanoseconds since the epoch do not fit a Lua number: seconds (_s) and
-- nanoseconds within the second (_ns) stay apart throughout.
local raw = redis.pcall('GET', KEYS[1])
if type(raw) == 'table' then return raw end

local now_s, now_ns
if ARGV[7] then
  local now_us = tonumber(ARGV[7])
  now_s = math.floor(now_us / 1000000)
  now_ns = (now_us - now_s * 1000000) * 1000
else
  local time = redis.call('TIME')
  now_s, now_ns = tonumber(time[1]), time[2] * 1000
end

local tat_s, tat_ns = now_s, now_ns
if raw then
  if #raw > 19 or #raw == 0 or string.find(raw, '%D') then
    return redis.error_reply('ERR the key holds no CL.THROTTLE state')
  end
  local s, ns = tonumber(string.sub(raw, 1, -10)) or 0, tonumber(string.sub(raw, -9))
  if s > 9223372036 or (s == 9223372036 and ns > 854775807) then
    return redis.error_reply('ERR the key holds no CL.THROTTLE state')
  end
  if s > now_s or (s == now_s and ns > now_ns) then
    tat_s, tat_ns = s, ns
  end
end

local inc_s, inc_ns = tonumber(ARGV[1]), tonumber(ARGV[2])
local tol_s, tol_ns = tonumber(ARGV[3]), tonumber(ARGV[4])
local limit, unit = tonumber(ARGV[5]), tonumber(ARGV[6])

local new_s, new_ns = tat_s + inc_s, tat_ns + inc_ns
if new_ns >= 1000000000 then new_s, new_ns = new_s + 1, new_ns - 1000000000 end
if new_s > 9223372036 or (new_s == 9223372036 and new_ns > 854775807) then
  return redis.error_reply('ERR limit is out of range: it does not fit 64-bit nanoseconds')
end
if new_s < now_s or (new_s == now_s and new_ns < now_ns) then new_s, new_ns = now_s, now_ns end

-- How long after now the new TAT would be within the tolerance.
local wait_s, wait_ns = new_s - now_s - tol_s, new_ns - now_ns - tol_ns
if wait_ns < 0 then wait_s, wait_ns = wait_s - 1, wait_ns + 1000000000 end
if wait_ns < 0 then wait_s, wait_ns = wait_s - 1, wait_ns + 1000000000 end

local limited, retry = 0, -1
if wait_s > 0 or (wait_s == 0 and wait_ns > 0) then
  limited = 1
  new_s, new_ns = tat_s, tat_ns
  if inc_s < tol_s or (inc_s == tol_s and inc_ns <= tol_ns) then
    retry = wait_s
    if wait_ns >= 1000000 then retry = retry + 1 end
  end
end

local ttl_s, ttl_ns = new_s - now_s, new_ns - now_ns
if ttl_ns < 0 then ttl_s, ttl_ns = ttl_s - 1, ttl_ns + 1000000000 end

local left_s, left_ns = tol_s - ttl_s, tol_ns - ttl_ns
if left_ns < 0 then left_s, left_ns = left_s - 1, left_ns + 1000000000 end
local remaining = 0
if left_s >= 0 then
  if unit > 0 then
    remaining = math.floor((left_s * 1000000 + math.floor(left_ns / 1000)) / unit)
  else
    local each = math.floor(left_s / -unit)
    remaining = each * 1000000000 + math.floor(((left_s + each * unit) * 1000000000 + left_ns) / -unit)
  end
  if remaining > limit then remaining = limit end
end

if limited == 0 then
  if ttl_s == 0 and ttl_ns == 0 and inc_s < 0 then
    redis.call('DEL', KEYS[1])
  else
    local value = string.format('%.0f%09.0f', new_s, new_ns)
    if value ~= raw then
      local ttl_ms = ttl_s * 1000 + math.ceil(ttl_ns / 1000000)
      if ttl_ms < 1 then ttl_ms = 1 end
      redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', ttl_ms))
    end
  end
end

if ttl_ns >= 1000000 then ttl_s = ttl_s + 1 end
return {limited, limit, remaining, retry, ttl_s}
