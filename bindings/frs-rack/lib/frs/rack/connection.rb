# frozen_string_literal: true

# The connection to a server, which the threads of a process share.
#
# Invariant: a command that may have been charged is sent again only under the same id.

require "redis"
require "uri"

module Frs
  module Rack
    # Why there is no verdict. `code` is the server's word, or `bad-token`, `no-frs`, `refused`.
    class Error < StandardError
      attr_reader :code

      def initialize(code, message)
        super(message)
        @code = code
      end
    end

    # There is no verdict, because the server cannot answer just now. `code` is `away`, or its word
    # `busy` or `store`.
    class Away < Error
    end

    class Connection
      DEFAULT_PORT = 6380
      # The first version that takes limits in the call.
      OLDEST = Gem::Version.new("0.1")
      # Words of a server that works, but cannot judge just now.
      BUSY = %w[busy store].freeze

      # Whether the business remembers no ids. A new connection finds out anew.
      attr_accessor :without_ids

      def self.parse(url)
        expected = "expected frs://HOST:PORT or frs+unix:///PATH, and ?biz=NAME at most"
        uri = URI.parse(url.to_s)
        query = URI.decode_www_form(uri.query.to_s).to_h
        unknown = query.keys.find { |name| name != "biz" }
        raise ArgumentError, "url: found ?#{unknown}=, #{expected}" if unknown

        biz = query["biz"]
        path = URI.decode_www_form_component(uri.path.to_s)
        if uri.scheme == "frs+unix" && uri.host.to_s.empty? && !path.empty?
          return { path: path, biz: biz }
        end
        unless uri.scheme == "frs" && !uri.host.to_s.empty? && ["", "/"].include?(path)
          raise ArgumentError, "url: found #{uri.scheme}://#{uri.host}#{path}, #{expected}"
        end

        token = uri.password && URI.decode_www_form_component(uri.password.gsub("+", "%2B"))
        { host: uri.hostname, port: uri.port || DEFAULT_PORT, password: token, biz: biz }
      rescue URI::InvalidURIError
        # Its text may hold a token.
        raise ArgumentError, "url: found no URL, #{expected}"
      end

      def initialize(address, timeout)
        @address = address
        # What is sent again is decided here, where it is known whether that is safe.
        @options = { **address, timeout: timeout, reconnect_attempts: 0 }
        @lock = Mutex.new
      end

      # Sends a command. With `again` one whose connection is lost is sent once more.
      def call(words, again: false)
        redis = open
        begin
          checked(redis) { redis.call(*words) }
        rescue Redis::ConnectionError
          raise unless again

          checked(redis) { redis.call(*words) }
        end
      rescue Redis::BaseConnectionError => error
        raise Error.new("bad-token", said(error)) if about_tokens?(error)

        raise Away.new("away", "frs does not answer: #{error.message}")
      rescue Redis::CommandError => error
        raise named(error, words)
      end

      def close
        @redis&.close
      end

      private

      # A process that was forked has a connection of its own.
      def open
        @lock.synchronize do
          if @pid != Process.pid
            @redis = Redis.new(**@options)
            @checked = false
            @pid = Process.pid
          end
          @redis
        end
      end

      # Looks at the server's version once for each connection.
      def checked(redis)
        check(redis) unless @checked
        yield
      rescue Redis::BaseConnectionError
        @checked = false
        raise
      end

      def check(redis)
        reply = Frs::Rack.fields(redis.call("HELLO"))
        server, version = reply.values_at("server", "version")
        unless server == "frs" && Gem::Version.new(version) >= OLDEST
          raise Error.new("no-frs", "found #{server} #{version}, expected frs #{OLDEST} or newer")
        end

        @without_ids = false
        @checked = true
      end

      def named(error, words)
        word = error.message[/\AERR ([a-z-]+) \(/, 1]
        return Away.new(word, said(error)) if BUSY.include?(word)
        return Away.new("away", said(error)) if error.message.start_with?("ERR max number of")
        return Error.new(word, said(error) + asked(word, words)) if word
        return Error.new("bad-token", said(error)) if about_tokens?(error)
        return Error.new("no-frs", said(error)) if error.message.start_with?("ERR unknown command")

        Error.new("refused", said(error))
      end

      def asked(word, words)
        name, biz, _, _, rate = words
        return "" unless name == "FRS.UPDATE"

        remedy = ". For more uses take a business such as adhoc-fixed, or raise its most in map.xml"
        ": asked for #{rate} in the business #{biz} of map.xml#{remedy if word == "bad-rate"}"
      end

      def said(error)
        "frs answers #{error.message}"
      end

      def about_tokens?(error)
        error.message.match?(/NOAUTH|WRONGPASS/)
      end
    end

    # The names and values of a reply: a list in RESP2, a hash in RESP3.
    def self.fields(reply)
      reply.is_a?(Hash) ? reply : Hash[*reply]
    end
  end
end
