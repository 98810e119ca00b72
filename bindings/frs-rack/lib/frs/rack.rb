# frozen_string_literal: true

# Throttles of rack-attack that frs judges.

require "rack/attack"
require "frs/rack/connection"
require "frs/rack/store"
require "frs/rack/throttle"

Rack::Attack::Throttle.prepend(Frs::Rack::Throttle)
Rack::Attack::Cache.prepend(Frs::Rack::Cache)
