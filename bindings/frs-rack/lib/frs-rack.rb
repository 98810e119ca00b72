# frozen_string_literal: true

require "frs/rack"
