# frozen_string_literal: true

# What a throttle of rack-attack tells the store: its limit and its whole period, instead of a key
# for each window of the clock.
#
# Invariant: with another store nothing changes.

module Frs
  module Rack
    # Prepended to Rack::Attack::Throttle, which asks for the limit just before it counts.
    module Throttle
      private

      def limit_for(request)
        super.tap { |limit| Thread.current[:frs_rack_limit] = limit }
      end

      # Says how many seconds are left, beside the count.
      def annotate_request_with_throttle_data(request, data)
        if cache.store.is_a?(Store)
          verdict = Thread.current[:frs_rack_verdict]
          data[:retry_after] = verdict.retry_after
        end
        super
      end
    end

    # Prepended to Rack::Attack::Cache.
    module Cache
      def count(unprefixed_key, period)
        limit = Thread.current[:frs_rack_limit]
        Thread.current[:frs_rack_limit] = nil
        return super unless store.is_a?(Store)

        @last_epoch_time = Time.now.to_i
        verdict = store.judge("#{prefix}:#{unprefixed_key}", limit, period)
        Thread.current[:frs_rack_verdict] = verdict
        verdict.count
      end

      def reset_count(unprefixed_key, period)
        return super unless store.is_a?(Store)

        store.clear("#{prefix}:#{unprefixed_key}", period)
      end
    end
  end
end
