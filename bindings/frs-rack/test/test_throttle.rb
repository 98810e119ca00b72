# frozen_string_literal: true

# rack-attack's throttle as a program: over Redis with its own store, and over frs.

require_relative "serving"

class ThrottleTest < ServingTest
  def test_it_decides_as_over_redis
    own = redis
    frs = serving
    random = Random.new(seed)
    [store(frs), store(frs, biz: "adhoc-fixed")].each_with_index do |adapted, nth|
      Rack::Attack.clear_configuration
      Rack::Attack.throttle("ip#{nth}", limit: 4, period: 2, &:ip)
      Rack::Attack.throttle("path#{nth}", limit: ->(r) { r.path == "/two" ? 2 : 6 }, period: 3600,
                            &:path)
      # The windows of rack-attack are those of the clock. None ends within a round, and a round that
      # a busy machine has drawn out is played again.
      sleep 1 while Time.now.to_i % 3600 > 3570
      rounds = 0
      until rounds == 2
        sleep 2.1
        sleep(2 - (Time.now.to_f % 2))
        window = Time.now.to_i / 2
        trace = Array.new(60) do
          ["10.0.0.#{random.rand(10)}", %w[/one /two].sample(random: random)]
        end
        played = [own, adapted].map do |store|
          Rack::Attack.cache.store = store
          trace.map { |address, path| app.call(address, path) }
        end
        next if Time.now.to_i / 2 != window

        rounds += 1
        assert_equal played[0], played[1]
        assert_includes played[1], 429
      end
    end
  end

  def test_no_window_has_more_than_the_limit
    Rack::Attack.cache.store = store(serving)
    Rack::Attack.throttle("ip", limit: 5, period: 1, &:ip)
    random = Random.new(seed)
    admitted = []
    finish = now + 4
    while now < finish
      before = now
      admitted << [before, now] if app.call("10.0.0.1") == 200
      sleep random.rand * 0.15
    end
    assert_operator admitted.size, :>, 5
    admitted.each_cons(6) do |first, *, last|
      assert_operator last[1] - first[0], :>=, 1, "6 admitted within a second"
    end
  end

  def test_who_is_refused_learns_how_long
    Rack::Attack.cache.store = store(serving)
    Rack::Attack.throttle("ip", limit: 2, period: 60, &:ip)
    datas = []
    Rack::Attack.throttled_responder = lambda do |request|
      datas << request.env["rack.attack.match_data"]
      [429, { "retry-after" => datas.last[:retry_after].to_s }, []]
    end
    statuses = Array.new(4) { app.call("10.0.0.1") }
    assert_equal [200, 200, 429, 429], statuses
    assert_equal [3, 3], datas.map { |data| data[:count] }, "refused ones are not charged"
    assert_includes 59..60, datas.last[:retry_after]
    assert_equal 200, app.call("10.0.0.2")
  ensure
    Rack::Attack.throttled_responder = Rack::Attack::Configuration::DEFAULT_THROTTLED_RESPONDER
  end

  def test_threads_admit_exactly_the_limit
    Rack::Attack.cache.store = store(serving)
    Rack::Attack.throttle("ip", limit: 100, period: 3600, &:ip)
    threads = Array.new(8) do
      Thread.new { Array.new(25) { app.call("10.0.0.1") } }
    end
    assert_equal({ 200 => 100, 429 => 100 }, threads.flat_map(&:value).tally)
  end

  def test_a_process_that_was_forked_has_its_own_connection
    Rack::Attack.cache.store = store(serving)
    Rack::Attack.throttle("ip", limit: 10, period: 3600, &:ip)
    assert_equal 200, app.call("10.0.0.1")
    children = Array.new(4) do
      fork { exit!([app.call("10.0.0.1"), app.call("10.0.0.1")] == [200, 200]) }
    end
    assert(children.all? { |pid| Process.wait2(pid).last.success? })
    assert_equal [200, 429], Array.new(2) { app.call("10.0.0.1") }
  end

  def test_fail2ban_and_allow2ban_count_exactly_and_keep_flags_in_registers
    frs = serving
    without = Frs::Rack::Store.new(url: frs.guarded, token: TOKEN, timeout: PATIENT)
    error = assert_raises(Frs::Rack::Error) { without.read("a") }
    assert_match(/Fail2Ban and Allow2Ban need <resp registers=/, error.message)
    without.close
    Rack::Attack.cache.store = store(frs)
    Rack::Attack.blocklist("fail") do |request|
      options = { maxretry: 2, findtime: 30, bantime: 2 }
      Rack::Attack::Fail2Ban.filter(request.ip, options) { request.path == "/private" }
    end
    Rack::Attack.blocklist("allow") do |request|
      options = { maxretry: 2, findtime: 30, bantime: 60 }
      Rack::Attack::Allow2Ban.filter("a#{request.ip}", options) { request.path == "/scarce" }
    end
    assert_equal 200, app.call("10.0.0.1")
    assert_equal [403, 403], Array.new(2) { app.call("10.0.0.1", "/private") }
    assert_equal 403, app.call("10.0.0.1"), "banned"
    assert_equal [200, 200, 403], Array.new(3) { app.call("10.0.0.2", "/scarce") }
    Rack::Attack::Fail2Ban.reset("10.0.0.1", findtime: 30)
    assert_equal 200, app.call("10.0.0.1")
    assert_equal [403, 403], Array.new(2) { app.call("10.0.0.1", "/private") }
    sleep 2.1
    assert_equal 200, app.call("10.0.0.1"), "the ban is over"
  end

  def test_another_store_is_asked_as_before
    own = redis
    Rack::Attack.cache.store = own
    Rack::Attack.throttle("ip", limit: 1, period: 3600, &:ip)
    assert_equal [200, 429], Array.new(2) { app.call("10.0.0.1") }
    assert_equal ["rack::attack:#{Time.now.to_i / 3600}:ip:10.0.0.1"], own.keys
  end

  private

  # Printed with each run, and set by FRS_SEED.
  def seed
    Integer(ENV.fetch("FRS_SEED") { rand(2**31) }).tap { |seed| puts "FRS_SEED=#{seed}" }
  end
end
