# frozen_string_literal: true

# A Rack application behind rack-attack: 5 requests a minute, by the address of the client. Its
# counts are in Redis itself, or in the cache of Rails (`rails`).

begin
  require "rack/attack"
  require "redis"
  require "active_support"
  require "active_support/cache/redis_cache_store"
rescue LoadError => error
  puts "missing: #{error.message}"
  exit
end

url, cache = ARGV
Rack::Attack.cache.store =
  case cache
  when "rails" then ActiveSupport::Cache::RedisCacheStore.new(url: url)
  else Redis.new(url: url)
  end
Rack::Attack.throttle("ip", limit: 5, period: 60, &:ip)
app = Rack::Attack.new(->(_env) { [200, {}, []] })

$stdout.sync = true
puts "ready"
$stdin.each_line do |line|
  seconds, key = line.split
  # Windows of the clock begin at the same hit over every server.
  Time.define_singleton_method(:now) { Time.at(Integer(seconds)) }
  env = Rack::MockRequest.env_for("/login", "REMOTE_ADDR" => key)
  status, = app.call(env)
  puts "#{status == 429 ? 1 : 0} #{env["rack.attack.throttle_data"]["ip"][:count]}"
end
Rack::Attack.reset!
