-- CL.THROTTLE: GCRA, answered as redis-cell answers.
--
-- KEYS[1]  the limiter
-- ARGV[1]  tolerance - increment, whole seconds, rounded down
-- ARGV[2]  and the nanoseconds left, 0 to 999999999
-- ARGV[3]  increment, whole seconds, rounded down
-- ARGV[4]  and the nanoseconds left
-- ARGV[5]  emission interval in whole microseconds, or minus its nanoseconds
--          if it is less than one microsecond
-- ARGV[6]  limit, units
-- ARGV[7]  now_us, microseconds since the epoch instead of TIME, in tests
-- State    the theoretical arrival time (TAT) in nanoseconds since the epoch,
--          decimal, expiring when it has come; none means it has come already
-- Reply    limited, limit, remaining, retry_after and reset_after in seconds
--
-- Nanoseconds since the epoch do not fit a Lua number. So every time x is kept
-- as x_s, whole seconds rounded down, and x_ns, the nanoseconds left. ttl is
-- the time from now to the TAT, slack what the request leaves of the tolerance.

if redis.replicate_commands then redis.replicate_commands() end -- Redis before 5

local now_s, now_ns
if ARGV[7] then
  now_s = math.floor(ARGV[7] / 1e6)
  now_ns = (ARGV[7] - now_s * 1e6) * 1e3
else
  local now = redis.call('TIME')
  now_s, now_ns = now[1] + 0, now[2] * 1e3
end

local ttl_s, ttl_ns = 0, 0
local tat = redis.pcall('GET', KEYS[1])
if tat then
  if type(tat) == 'table' then return tat end -- an error
  local tat_s, tat_ns = string.match(tat, '^(%d%d%d%d%d%d%d%d%d%d)(%d%d%d%d%d%d%d%d%d)$')
  if not tat_s and #tat < 19 and string.find(tat, '^%d+$') then
    tat_s, tat_ns = string.match(string.rep('0', 19 - #tat) .. tat, '^(..........)(.........)$')
    tat_s = tonumber(tat_s, 10)
  end
  if not tat_s or tat > '9223372036854775807' and #tat == 19 then
    return redis.error_reply('ERR value is not a state of CL.THROTTLE')
  end
  ttl_s, ttl_ns = tat_s - now_s, tonumber(tat_ns, 10) - now_ns -- some Luas take 0... for octal
  if ttl_ns < 0 then ttl_s, ttl_ns = ttl_s - 1, ttl_ns + 1e9 end
  if ttl_s < 0 then ttl_s, ttl_ns = 0, 0 end
end

local slack_s, slack_ns = ARGV[1] - ttl_s, ARGV[2] - ttl_ns
if slack_ns < 0 then slack_s, slack_ns = slack_s - 1, slack_ns + 1e9 end

local limited, retry_after = 0, -1
local room_s, room_ns = slack_s, slack_ns
if slack_s >= 0 then
  local peek = ARGV[3] == '0' and ARGV[4] == '0'
  local idle = ttl_s == 0 and ttl_ns == 0
  ttl_s, ttl_ns = ttl_s + ARGV[3], ttl_ns + ARGV[4]
  if ttl_ns >= 1e9 then ttl_s, ttl_ns = ttl_s + 1, ttl_ns - 1e9 end
  local ttl_ms = ttl_s * 1e3 + math.ceil(ttl_ns / 1e6)
  if ttl_ms <= 0 then -- all is there, however much was given back
    ttl_s, ttl_ns = 0, 0
    room_s, room_ns = ARGV[1] + ARGV[3], ARGV[2] + ARGV[4]
    if room_ns >= 1e9 then room_s, room_ns = room_s + 1, room_ns - 1e9 end
  end
  if ttl_ms > 0 and not peek or peek and idle then
    local tat_s, tat_ns = now_s + ttl_s, now_ns + ttl_ns
    if tat_ns >= 1e9 then tat_s, tat_ns = tat_s + 1, tat_ns - 1e9 end
    if tat_s >= 9223372036 and (tat_s > 9223372036 or tat_ns > 854775807) then
      return redis.error_reply('ERR value is out of range, times must fit 64-bit nanoseconds')
    end
    if peek then ttl_ms = 1 end
    local set = redis.pcall('SET', KEYS[1], string.format('%.0f%09d', tat_s, tat_ns), 'PX', ttl_ms)
    if set.err then return set end
  elseif tat and not peek then
    redis.call('DEL', KEYS[1])
  end
else
  limited = 1
  if ARGV[1] + 0 >= 0 then
    retry_after = -slack_s
    if slack_ns > 0 then
      local wait_s, wait_ns = -slack_s - 1, 1e9 - slack_ns
      retry_after = wait_s
      if wait_ns >= 1e6 then retry_after = math.floor(wait_s + wait_ns / 1e9) + 1 end
    end
  end
  room_s, room_ns = slack_s + ARGV[3], slack_ns + ARGV[4]
  if room_ns >= 1e9 then room_s, room_ns = room_s + 1, room_ns - 1e9 end
end

local limit, unit, remaining = ARGV[6] + 0, ARGV[5] + 0, 0
if room_s < 0 then
  remaining = 0
elseif unit > 0 then
  remaining = (room_s * 1e6 + (room_ns - room_ns % 1e3) / 1e3) / unit
else -- long division: room in nanoseconds may not fit
  unit = -unit
  local rest_ns = room_s % unit * 1e9 + room_ns
  remaining = (room_s - room_s % unit) / unit * 1e9 + (rest_ns - rest_ns % unit) / unit
end
if remaining > limit then remaining = limit end

local reset_after = ttl_s
if ttl_ns >= 1e6 then reset_after = math.floor(ttl_s + ttl_ns / 1e9) + 1 end
return {limited, limit, remaining, retry_after, reset_after}
