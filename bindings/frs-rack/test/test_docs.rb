# frozen_string_literal: true

# The program of docs/redis.md runs as written.

require_relative "serving"

class DocsTest < ServingTest
  PAGE = File.read(File.expand_path("../../../docs/redis.md", __dir__))
  README = File.read(File.expand_path("../README.md", __dir__))

  def test_the_program_of_the_page_admits_five_and_refuses_the_sixth
    block = PAGE[/```ruby\n(.*?)```/m, 1]
    assert_includes README, block
    eval(block.sub("127.0.0.1:6380", "127.0.0.1:#{serving.port}"))
    assert_equal [200] * 5 + [429], Array.new(6) { app.call("10.0.0.1") }
  end
end
