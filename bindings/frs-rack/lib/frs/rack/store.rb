# frozen_string_literal: true

# A cache store of rack-attack. A count is judged by the server, exactly.
#
# Invariant: a count is above its limit if and only if the server refused the use.

require "digest"
require "securerandom"

module Frs
  module Rack
    class Store
      # What the server says of a use.
      Verdict = Struct.new(:count, :retry_after)

      # The largest number that rack-attack compares with.
      OVER = (2**62) - 1
      # Gives back all that a key has used. A count has 32 bits.
      ALL = -(2**31)
      # What frs takes as a key: so many bytes of UTF-8, without the characters that XML forbids.
      LONGEST_KEY = 1024
      KEY = /\A[^\0-\x08\x0b\x0c\x0e-\x1f\u{fffe}\u{ffff}]+\z/
      ON_DOWN = %i[allow refuse raise].freeze
      # At most one warning in so many seconds.
      QUIET = 60

      # url:: frs://[:token@]HOST:PORT[?biz=NAME] or frs+unix:///PATH[?biz=NAME]
      # biz:: a business whose only limit has per-call="true"
      # on_down:: what happens while the server is away: :allow, :refuse or :raise
      # timeout:: how many seconds a command waits for its answer
      # most:: how many uses are counted for which rack-attack names no limit (Fail2Ban, Allow2Ban)
      def initialize(url:, biz: nil, token: nil, on_down: :allow, timeout: 0.5, most: 200)
        unless ON_DOWN.include?(on_down)
          raise ArgumentError, "on_down: found #{on_down.inspect}, expected one of #{ON_DOWN}"
        end

        address = Connection.parse(url)
        @biz = biz || address[:biz] || "adhoc"
        address[:password] = token if token
        @connection = Connection.new(address.except(:biz), timeout)
        @on_down = on_down
        @most = most
      end

      # Charges uses of a key. `limit` nil counts up to `most`.
      def judge(key, limit, period, amount = 1)
        max = limit ? [limit.floor, 0].max : @most
        verdict = update(key, "#{max}/#{milliseconds(period)}ms", amount)
        used, reset, wait = verdict.values_at("used", "reset", "retry")
        return Verdict.new(used, seconds(reset)) if verdict["limited"].zero?

        Verdict.new(limit ? max + 1 : OVER, seconds(wait || reset))
      rescue Away => error
        away(error, Verdict.new(0, 0), Verdict.new(OVER, 1))
      end

      # Forgets the uses of a key.
      def clear(key, period)
        update(key, "1/#{milliseconds(period)}ms", ALL)
        nil
      rescue Away => error
        away(error, nil, nil)
      end

      # Charges uses within any `expires_in` seconds, and returns how many there are.
      def increment(key, amount = 1, options = {})
        judge(key, nil, options[:expires_in] || 60, amount).count
      end

      # The flags of Fail2Ban and Allow2Ban are registers of the server.
      def read(key)
        register(["GET", short(key)])
      rescue Away => error
        away(error, nil, "1")
      end

      def write(key, value, options = {})
        life = options[:expires_in] ? ["PX", milliseconds(options[:expires_in])] : []
        register(["SET", short(key), value.to_s, *life])
      rescue Away => error
        away(error, nil, nil)
      end

      def delete(key, _options = {})
        register(["DEL", short(key)])
      rescue Away => error
        away(error, nil, nil)
      end

      def close
        @connection.close
      end

      private

      def update(key, rate, amount)
        words = ["FRS.UPDATE", @biz, short(key), "RATE", rate, "COUNT", amount]
        return Frs::Rack.fields(@connection.call(words)) if @connection.without_ids

        begin
          Frs::Rack.fields(@connection.call([*words, "ONCE", SecureRandom.uuid], again: true))
        rescue Error => error
          raise unless error.code == "bad-once"

          # The business remembers no ids, so nothing is sent twice.
          @connection.without_ids = true
          Frs::Rack.fields(@connection.call(words))
        end
      end

      # A key that frs does not take becomes a digest, so that no client makes a limit fail.
      def short(key)
        text = key.dup.force_encoding(Encoding::UTF_8)
        fits = text.bytesize <= LONGEST_KEY && text.valid_encoding? && text.match?(KEY)
        fits ? key : Digest::SHA256.hexdigest(key)
      end

      def register(words)
        @connection.call(words, again: true)
      rescue Error => error
        raise unless error.code == "no-frs"

        hint = 'Fail2Ban and Allow2Ban need <resp registers="…"> in srv.xml, see docs/redis.md'
        raise Error.new("refused", "#{error.message}. #{hint}")
      end

      def away(error, admitted, refused)
        raise error if @on_down == :raise

        now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        if @warned.nil? || now - @warned >= QUIET
          @warned = now
          warn "frs-rack: #{error.message}; on_down: #{@on_down}"
        end
        @on_down == :allow ? admitted : refused
      end

      def milliseconds(seconds)
        (seconds * 1000).ceil
      end

      def seconds(milliseconds)
        ((milliseconds || 0) / 1000.0).ceil
      end
    end
  end
end
