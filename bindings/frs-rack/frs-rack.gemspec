# frozen_string_literal: true

Gem::Specification.new do |spec|
  spec.name = "frs-rack"
  spec.version = "0.1.0"
  spec.summary = "Exact throttles of rack-attack on frs, without Redis"
  spec.authors = ["The frs authors"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.required_ruby_version = ">= 3.0"
  spec.files = Dir["lib/**/*.rb"] + ["README.md"]
  spec.add_dependency "rack-attack", ">= 6.6", "< 7"
  spec.add_dependency "redis", ">= 4.8", "< 7"
end
