-- wrk script: POST /api/route/ with many different queries, one after another.
-- Environment: QUERIES (a JSONL file whose lines hold "text"), ROUTE_KEY (an API key), ROUTE_POOL (optional slug).
local bodies = {}
local key = os.getenv("ROUTE_KEY") or error("ROUTE_KEY: the API key to send is not set")
local pool = os.getenv("ROUTE_POOL")

for line in io.lines(os.getenv("QUERIES") or error("QUERIES: the file of queries is not set")) do
  -- The text is passed on as it stands in the file, JSON escapes included.
  local text = line:match('"text"%s*:%s*(".-[^\\]")')
  if text then
    bodies[#bodies + 1] = '{"query":' .. text .. (pool and ',"pool":"' .. pool .. '"' or "") .. "}"
  end
end
if #bodies == 0 then error("QUERIES: no line holds a text") end

local headers = {["Content-Type"] = "application/json", ["Authorization"] = "Bearer " .. key}
local path = os.getenv("ROUTE_PATH") or "/api/route/"
local next_body = 0

function request()
  next_body = next_body % #bodies + 1
  return wrk.format("POST", path, headers, bodies[next_body])
end

local threads = {}
function setup(thread) threads[#threads + 1] = thread end

-- One line of JSON, which the runner reads.
function done(summary, latency)
  local failed = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout + summary.errors.status
  io.write(string.format('{"requests_per_second": %.1f, "p50_ms": %.3f, "p99_ms": %.3f, "errors": %d}\n',
    summary.requests / (summary.duration / 1e6), latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, failed))
end
