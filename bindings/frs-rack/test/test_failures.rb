# frozen_string_literal: true

# A server that is away, wrong settings, lost answers, kills and restarts.

require_relative "serving"

class FailuresTest < ServingTest
  def test_a_server_that_is_away_allows_refuses_or_raises_as_on_down_says
    Rack::Attack.throttle("ip", limit: 1, period: 60, &:ip)
    found = decide("frs://127.0.0.1:#{free_port}")
    assert_equal [[200, 200], [429, 429]], found[0..1]
    assert_equal "away", found[2].code
    assert_match(/frs does not answer: .*refused/i, found[2].message)
  end

  def test_a_server_that_cannot_judge_just_now_counts_as_one_that_is_away
    Rack::Attack.throttle("ip", limit: 1, period: 60, &:ip)
    {
      "busy" => "ERR busy (the record was not free within lock-timeout)",
      "store" => "ERR store (the files of the group failed)",
      "away" => "ERR max number of clients reached"
    }.each do |code, error|
      failing = Failing.new(error)
      @ends << -> { failing.close }
      found = decide(failing.url)
      assert_equal [[200, 200], [429, 429]], found[0..1]
      assert_equal code, found[2].code
      assert_equal "frs answers #{error}", found[2].message
    end
  end

  def test_a_key_that_frs_does_not_take_is_judged_all_the_same
    made = store(serving, on_down: :raise)
    ["/\0", "/\e", "/\u{ffff}", "/\xff", "", "/" * 1024, "/" * 1025].each do |key|
      assert_equal 1, made.judge(key, 2, 60).count
      made.clear(key, 60)
      assert_equal 1, made.judge(key, 2, 60).count
      made.write(key, 1)
      assert_equal "1", made.read(key)
    end
  end

  def test_one_warning_a_minute_says_that_nobody_is_limited
    made = Frs::Rack::Store.new(url: "frs://127.0.0.1:#{free_port}")
    _, said = capture_io { 3.times { made.judge("a", 1, 60) } }
    assert_match(/\Afrs-rack: frs does not answer: .*; on_down: allow\n\z/, said)
  end

  def test_what_the_settings_say_wrong_has_a_name
    frs = serving
    not_frs = "frs://127.0.0.1:#{redis.connection[:port]}"
    [
      [{ url: frs.guarded }, 2, "bad-token", /NOAUTH/],
      [{ url: frs.guarded, token: "another" }, 2, "bad-token", /WRONGPASS/],
      [{ url: "#{frs.url}?biz=nobody" }, 2, "unknown-biz", /map\.xml names no such business/],
      [{ url: frs.url }, 201, "bad-rate",
       %r{over most.*asked for 201/60000ms in the business adhoc of map\.xml\. .* adhoc-fixed}],
      [{ url: not_frs }, 2, "no-frs", /found redis .* expected frs/]
    ].each do |options, limit, code, text|
      made = Frs::Rack::Store.new(timeout: PATIENT, **options)
      error = assert_raises(Frs::Rack::Error) { made.judge("a", limit, 60) }
      assert_equal code, error.code
      assert_match text, error.message
      made.close
    end
    url = "#{frs.guarded}?biz=adhoc-fixed"
    good = Frs::Rack::Store.new(url: url, token: TOKEN, timeout: PATIENT)
    assert_equal 1, good.judge("a", 5, 60).count
    assert_equal 1, frs.used("adhoc-fixed", "a")
    assert_equal 3, good.increment("a", 2, expires_in: 60)
    good.close
    [
      "nonsense", "redis://127.0.0.1", "frs://", "frs+unix://host/path", "a b",
      "frs://127.0.0.1:6380/7", "frs://127.0.0.1?bizz=adhoc", "frs+unix:///path?biz=adhoc&timeout=1"
    ].each do |url|
      error = assert_raises(ArgumentError) { Frs::Rack::Store.new(url: url) }
      assert_match(%r{expected frs://HOST:PORT}, error.message)
    end
    assert_raises(ArgumentError) { Frs::Rack::Store.new(url: frs.url, on_down: :open) }
  end

  def test_a_lost_answer_is_asked_for_again_and_charged_once
    frs = serving
    between = Lossy.new(frs.port)
    @ends << -> { between.close }
    lossy = lambda do |biz|
      url = "frs://127.0.0.1:#{between.port}?biz=#{biz}"
      Frs::Rack::Store.new(url: url, timeout: PATIENT)
    end
    safe = lossy.call("adhoc")
    1.upto(20) do |nth|
      between.swallow(nth % 2)
      assert_equal nth, safe.judge("a", 100, 60).count
      assert_equal 0, between.armed
    end
    assert_equal 20, frs.used("adhoc", "a")

    # Without ids in map.xml nothing is sent twice.
    plain = lossy.call("without-ids")
    assert_equal 1, plain.judge("a", 100, 60).count
    between.swallow(1)
    _, said = capture_io { assert_equal 0, plain.judge("a", 100, 60).count }
    assert_match(/does not answer/, said)
    assert_equal 2, frs.used("without-ids", "a")
    [safe, plain].each(&:close)
  end

  def test_ids_are_tried_again_after_a_restart_of_the_server
    frs = serving
    between = Lossy.new(frs.port)
    @ends << -> { between.close }
    url = "frs://127.0.0.1:#{between.port}?biz=without-ids"
    made = Frs::Rack::Store.new(url: url, timeout: PATIENT, on_down: :raise)
    @ends << -> { made.close }
    assert_equal 1, made.judge("a", 100, 60).count
    frs.stop
    map = Serving::MAP.sub('name="without-ids"', 'name="without-ids" once="8"')
    File.write(File.join(frs.folder, "conf/map.xml"), map)
    frs.start
    assert_raises(Frs::Rack::Away) { made.judge("a", 100, 60) }
    assert_equal 2, made.judge("a", 100, 60).count
    between.swallow(1)
    assert_equal 3, made.judge("a", 100, 60).count
  end

  def test_workers_that_are_killed_lose_no_use_and_count_none_twice
    frs = serving
    made = store(frs, biz: "adhoc-fixed", on_down: :raise)
    going = true
    threads = Array.new(4) do
      Thread.new do
        found = { answered: 0, failed: 0 }
        while going
          begin
            made.judge("a", 100_000, 3600)
            found[:answered] += 1
          rescue Frs::Rack::Away
            found[:failed] += 1
          end
        end
        found
      end
    end
    4.times do
      sleep 0.2
      frs.kill_workers
      before = frs.used("adhoc-fixed", "a")
      wait_until("it goes on") { frs.used("adhoc-fixed", "a") > before + 100 }
    end
    going = false
    found = threads.map(&:value).reduce { |one, other| one.merge(other) { |_, a, b| a + b } }
    used = frs.used("adhoc-fixed", "a")
    assert_includes found[:answered]..found.values.sum, used, found.to_s
  end

  def test_counts_go_on_after_a_restart_of_the_server
    frs = serving
    Rack::Attack.cache.store = store(frs, on_down: :refuse)
    Rack::Attack.throttle("ip", limit: 4, period: 60, &:ip)
    assert_equal [200] * 3, Array.new(3) { app.call("10.0.0.1") }
    frs.stop("KILL")
    capture_io { assert_equal 429, app.call("10.0.0.1") }
    frs.start
    assert_equal [200, 429], Array.new(2) { app.call("10.0.0.1") }
  end

  private

  # The statuses of two requests as each value of on_down says, or the error.
  def decide(url)
    %i[allow refuse raise].map do |on_down|
      made = Frs::Rack::Store.new(url: url, timeout: PATIENT, on_down: on_down)
      @ends << -> { made.close }
      Rack::Attack.cache.store = made
      found = nil
      capture_io { found = Array.new(2) { app.call("10.0.0.1") } }
      found
    rescue Frs::Rack::Away => error
      error
    end
  end
end
