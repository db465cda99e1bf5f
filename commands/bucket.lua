
-- The body of TB.ACQUIRE and LB.ACQUIRE, which before it set their name, and
-- the pattern and the format of their state.
--
-- The state and now are moments in microseconds; wait is the time between them
-- in microseconds, and ticks what is more, in parts of a microsecond that are
-- as small as it takes for every unit to be a whole number of them.

if redis.replicate_commands then redis.replicate_commands() end -- Redis before 5

local now
if ARGV[5] then
  now = ARGV[5] + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1e6 + time[2]
end

local increment, interval, per_micro, capacity = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0

local wait, ticks = 0, 0
local state = redis.pcall('GET', KEYS[1])
if state then
  if type(state) == 'table' then return state end -- an error
  local tat, more, of = string.match(state, pattern)
  tat, more, of = tonumber(tat or '', 10), tonumber(more or '', 10), tonumber(of or '', 10)
  if not (tat and more and of) or tat >= 2^53 or of >= 2^53 or more >= of then
    return redis.error_reply('ERR value is not a state of ' .. name)
  end
  if tat >= now then
    wait, ticks = tat - now, more
    if ticks > 0 and of ~= per_micro then wait, ticks = wait + 1, 0 end
  end
end

local tolerance = capacity * interval
local slack = tolerance - increment
local limited, retry_after = 0, -1
if wait * per_micro + ticks > slack and increment >= 0 then
  limited = 1
  if slack >= 0 then
    retry_after = math.ceil((wait + math.ceil((ticks - slack) / per_micro)) / 1e3)
  end
elseif increment ~= 0 then
  ticks = ticks + increment
  local rest = ticks % per_micro + 0 -- not -0, as some Luas have it
  wait, ticks = wait + (ticks - rest) / per_micro, rest
  if wait < 0 then wait, ticks = 0, 0 end
  if now + wait >= 2^53 then
    return redis.error_reply('ERR value is out of range, times must fit 53-bit microseconds')
  end
  if wait > 0 or ticks > 0 then
    local ttl_ms = math.ceil((wait + (ticks > 0 and 1 or 0)) / 1e3)
    local set = redis.pcall('SET', KEYS[1], string.format(format, now + wait, ticks, per_micro), 'PX', ttl_ms)
    if set.err then return set end
  elseif state then
    redis.call('DEL', KEYS[1])
  end
end

local remaining = math.floor((tolerance - (wait * per_micro + ticks)) / interval)
if remaining < 0 then remaining = 0 end
return {limited, capacity, remaining, retry_after, math.ceil((wait + (ticks > 0 and 1 or 0)) / 1e3)}
