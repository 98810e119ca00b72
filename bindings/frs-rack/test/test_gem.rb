# frozen_string_literal: true

# The gem as its users get it.

require "minitest/autorun"
require "open3"
require "tmpdir"

class GemTest < Minitest::Test
  def test_it_is_built_with_what_it_requires
    Dir.mktmpdir("frs-rack-") do |folder|
      gem = File.join(folder, "frs-rack.gem")
      home = { "GEM_HOME" => folder, "GEM_PATH" => [folder, *Gem.path].join(":") }
      run_in("..", home, "gem", "build", "--output", gem, "frs-rack.gemspec")
      run_in(folder, home, "gem", "install", "--local", "--no-document", gem)
      listed = run_in(folder, home, "gem", "contents", "frs-rack", "--no-prefix")
      expected = %w[
        README.md lib/frs-rack.rb lib/frs/rack.rb lib/frs/rack/connection.rb lib/frs/rack/store.rb
        lib/frs/rack/throttle.rb
      ]
      assert_equal expected, listed.split("\n").sort
      said = run_in(folder, home, "ruby", "-e", 'require "frs-rack"; print Frs::Rack::Store')
      assert_equal "Frs::Rack::Store", said
    end
  end

  def test_its_version_is_that_of_the_server
    manifest = File.read(File.expand_path("../../../Cargo.toml", __dir__))
    version = manifest[/^\[workspace\.package\][^\[]*?\nversion = "(.*)"/, 1]
    gem = Gem::Specification.load(File.expand_path("../frs-rack.gemspec", __dir__))
    assert_equal version, gem.version.to_s
  end

  private

  def run_in(folder, env, *words)
    said, status = Open3.capture2e(env, *words, chdir: File.expand_path(folder, __dir__))
    assert status.success?, "#{words.join(" ")}: #{said}"
    said
  end
end
