-- SW.ACQUIRE: a sliding window.
--
-- KEYS[1]  the limiter
-- ARGV[1]  quantity
-- ARGV[2]  limit, units
-- ARGV[3]  window, microseconds
-- ARGV[4]  slice, microseconds: what is admitted within one counts as admitted at
--          its end; 0 for an exact log
-- ARGV[5]  how many bytes of older slices are enough for any window of such
--          slices; 0 if there may be any number
-- ARGV[6]  now_us, microseconds since the epoch instead of TIME, in tests
-- State    sw:<units> <us> <units> <us>:<units> ..., what was admitted in all, the
--          end of the newest slice and what was admitted in it, and the same of
--          those before it, the oldest first; ends are in microseconds since the
--          epoch. It expires when the newest slice has left the window
-- Reply    limited, limit, remaining, retry_after and reset_after in
--          milliseconds, rounded up
--
-- Sums of a moment and a window may not fit a Lua number; times from now do.
-- What a request has to look at is the newest slice and the oldest: its cost
-- does not depend on how many there are between.

if redis.replicate_commands then redis.replicate_commands() end -- Redis before 5

local now
if ARGV[6] then
  now = ARGV[6] + 0
else
  local time = redis.call('TIME')
  now = time[1] * 1e6 + time[2]
end

local quantity, limit, window, slice = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0

local function number(digits)
  local n = tonumber(digits or '', 10)
  return n and n < 2^53 and n
end

-- oldest returns the end of the slice at a place in older, what was admitted in
-- it, and the place of the next.
local function oldest(older, from)
  local _, last, ends, count = string.find(older, '^(%d+):(%d+) ', from)
  ends, count = number(ends), number(count)
  return ends, count, (last or 0) + 1
end

local used, ends, count, older = 0, 0, 0, ''
local state = redis.pcall('GET', KEYS[1])
if state then
  if type(state) == 'table' then return state end -- an error
  used, ends, count, older = string.match(state, '^sw:(%d+) (%d+) (%d+) (.*)$')
  used, ends, count = number(used), number(ends), number(count)
end

-- What has left the window is forgotten, when there is something to write.
local from = 1
if used and ends and count then
  if ends - now + window <= 0 then used, ends, count, older = 0, 0, 0, '' end
  while used and from <= #older do
    local end_of, units, after = oldest(older, from)
    if not (end_of and units) then
      used = nil
    elseif end_of - now + window > 0 then
      break
    else
      used, from = math.max(used - units, 0), after
    end
  end
end
if not (used and ends and count) then
  return redis.error_reply('ERR value is not a state of SW.ACQUIRE')
end

local limited, retry_after = 0, -1
if used + quantity > limit then
  limited = 1
  if quantity <= limit then -- it is admitted when enough has left
    local rest, leaves, at = used + quantity - limit, ends, from
    while at <= #older do
      local end_of, units, after = oldest(older, at)
      if not (end_of and units) then
        return redis.error_reply('ERR value is not a state of SW.ACQUIRE')
      end
      rest, at = rest - units, after
      if rest <= 0 then
        leaves = end_of
        break
      end
    end
    retry_after = math.ceil((leaves - now + window) / 1e3)
  end
elseif quantity > 0 then
  used = used + quantity
  if ends >= now then
    count = count + quantity
  else
    local most = ARGV[5] + 0
    if most > 0 and #older - from + 1 > most then
      count = count + quantity -- slices of a shorter window: the newest is prolonged
    else
      older = string.sub(older, from)
      if count > 0 then older = older .. string.format('%.0f:%.0f ', ends, count) end
      count, from = quantity, 1
    end
    ends = now + slice
  end
  local value = string.format('sw:%.0f %.0f %.0f ', used, ends, count) .. string.sub(older, from)
  local ttl_ms = math.ceil((ends - now + window) / 1e3)
  local set = redis.pcall('SET', KEYS[1], value, 'PX', ttl_ms)
  if set.err then return set end
end

local remaining, reset_after = limit - used, 0
if remaining < 0 then remaining = 0 end
if ends > 0 then reset_after = math.ceil((ends - now + window) / 1e3) end
return {limited, limit, remaining, retry_after, reset_after}
