# frozen_string_literal: true

# The servers of the tests: frs, and a Redis for rack-attack's own store.
#
# Invariant: each server has its own directory and port, and ends with the test.

$LOAD_PATH.unshift File.expand_path("../lib", __dir__)
require "minitest/autorun"
require "fileutils"
require "net/http"
require "rack/mock"
require "socket"
require "tmpdir"
require "frs-rack"

TOKEN = "a-token/of+24=characters"
# As many seconds as a busy machine takes to answer.
PATIENT = 20

def free_port
  server = TCPServer.new("127.0.0.1", 0)
  server.addr[1].tap { server.close }
end

def wait_until(what)
  (0..2000).each do
    found = yield
    return found if found

    sleep 0.01
  end
  raise "#{what}: waited 20 s"
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

class Serving
  PER_CALL = 'interval="60s" max="5" per-call="true" max-period="1d"'
  MAP = <<~XML
    <map><group name="all" keys="2000"/>
      <biz id="1" name="adhoc" key="string" once="64">
        <limit policy="sliding" most="200" #{PER_CALL}/></biz>
      <biz id="2" name="adhoc-fixed" key="string" once="64">
        <limit policy="interval" most="100000" #{PER_CALL}/></biz>
      <biz id="3" name="without-ids" key="string">
        <limit policy="interval" most="100000" #{PER_CALL}/></biz>
      <biz id="4" name="flags" key="string"><register/></biz></map>
  XML

  attr_reader :port, :folder

  def initialize
    @folder = Dir.mktmpdir("frs-rack-")
    @http = free_port
    @port = free_port
    conf = File.join(@folder, "conf")
    Dir.mkdir(conf)
    File.write(File.join(conf, "map.xml"), MAP)
    File.write(File.join(conf, "resp.token"), TOKEN, perm: 0o600)
    File.write(File.join(conf, "srv.xml"), <<~XML)
      <srv><workers>2</workers><listen>127.0.0.1:#{@http}</listen>
        <resp listen="127.0.0.1:#{@port}" registers="flags"/>
        <resp listen="unix:guarded.sock" token-file="conf/resp.token"/>
        <data dir="data"/></srv>
    XML
    start
  end

  def start
    frs = ENV.fetch("FRS", "frs")
    log = File.join(@folder, "log")
    @pid = Process.spawn(frs, "serve", chdir: @folder, out: File::NULL, err: [log, "a"])
    wait_until("frs serves") do
      raise File.read(log) if Process.wait(@pid, Process::WNOHANG)

      Net::HTTP.get_response(URI("http://127.0.0.1:#{@http}/health")).is_a?(Net::HTTPSuccess)
    rescue SystemCallError
      false
    end
  end

  # The workers outlive a master that is killed by a moment.
  def stop(signal = "TERM")
    Process.kill(signal, @pid)
    Process.wait(@pid)
    wait_until("nobody listens") do
      TCPSocket.new("127.0.0.1", @port).close
      false
    rescue SystemCallError
      true
    end
  end

  # Ends the workers in the middle of what they do. The master replaces them.
  def kill_workers
    status = IO.popen([ENV.fetch("FRS", "frs"), "status"], chdir: @folder, &:read)
    status.scan(/^worker +process (\d+)/) { |(pid)| Process.kill("KILL", pid.to_i) }
  end

  def url
    "frs://127.0.0.1:#{@port}"
  end

  def guarded
    "frs+unix://#{@folder}/guarded.sock"
  end

  # What a key has used, as the server says.
  def used(biz, key)
    asked = URI.encode_www_form(biz: biz, key: key, count: 0)
    answer = Net::HTTP.get(URI("http://127.0.0.1:#{@http}/query?#{asked}"))
    Integer(answer[/used="(\d+)"/, 1])
  end

  def remove
    FileUtils.remove_entry(@folder)
  end
end

# A proxy to a port. After `swallow(n)` it closes n connections instead of passing on the reply to
# an FRS.UPDATE.
class Lossy
  attr_reader :port, :armed

  def initialize(port)
    @armed = 0
    @server = TCPServer.new("127.0.0.1", 0)
    @port = @server.addr[1]
    @thread = Thread.new do
      loop { pass(@server.accept, TCPSocket.new("127.0.0.1", port)) }
    rescue IOError
      nil
    end
  end

  def swallow(times)
    @armed = times
  end

  def close
    @server.close
    @thread.join
  end

  private

  def pass(near, far)
    Thread.new do
      asked = false
      loop do
        from = IO.select([near, far]).first.first
        data = from.readpartial(65_536)
        asked ||= from == near && data.include?("FRS.UPDATE")
        if from == far && asked && @armed.positive?
          @armed -= 1
          break
        end
        (from == near ? far : near).write(data)
      end
    rescue EOFError, SystemCallError
      nil
    ensure
      near.close
      far.close
    end
  end
end

# A server that answers each command but HELLO with an error.
class Failing
  HELLO = "*4\r\n$6\r\nserver\r\n$3\r\nfrs\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n"

  def initialize(error)
    @error = error
    @server = TCPServer.new("127.0.0.1", 0)
    @thread = Thread.new do
      loop { answer(@server.accept) }
    rescue IOError
      nil
    end
  end

  def url
    "frs://127.0.0.1:#{@server.addr[1]}"
  end

  def close
    @server.close
    @thread.join
  end

  private

  def answer(socket)
    Thread.new do
      full = @error.include?("clients")
      loop do
        asked = socket.readpartial(65_536)
        socket.write(asked.match?(/\r\nHELLO\r\n/i) && !full ? HELLO : "-#{@error}\r\n")
      end
    rescue EOFError, SystemCallError
      nil
    ensure
      socket.close
    end
  end
end

class ServingTest < Minitest::Test
  def setup
    @ends = []
    Rack::Attack.clear_configuration
  end

  def teardown
    @ends.reverse_each(&:call)
  end

  def serving
    Serving.new.tap do |serving|
      @ends << -> { serving.stop && serving.remove }
    end
  end

  # A client of a new Redis. The test is skipped if there is none.
  def redis
    names = ENV.key?("FRS_REDIS") ? [ENV["FRS_REDIS"]] : %w[redis-server valkey-server]
    program = names.find { |name| system(name, "--version", out: File::NULL) }
    skip "redis-server is not installed" unless program
    folder = Dir.mktmpdir("frs-rack-")
    port = free_port
    words = [program, "--port", port.to_s, "--bind", "127.0.0.1", "--save", "", "--dir", folder]
    pid = Process.spawn(*words, out: File::NULL)
    @ends << lambda do
      Process.kill("KILL", pid)
      Process.wait(pid)
      FileUtils.remove_entry(folder)
    end
    client = Redis.new(host: "127.0.0.1", port: port)
    wait_until("Redis serves") do
      client.ping
    rescue Redis::CannotConnectError
      false
    end
    client
  end

  def store(serving, **options)
    made = Frs::Rack::Store.new(url: serving.url, timeout: PATIENT, **options)
    @ends << -> { made.close }
    made
  end

  # An app behind rack-attack, as a lambda from an address and a path to a status.
  def app
    app = Rack::Attack.new(->(_env) { [200, {}, ["served"]] })
    @headers = nil
    lambda do |address, path = "/"|
      answer = Rack::MockRequest.new(app).get(path, "REMOTE_ADDR" => address)
      @headers = answer.headers
      answer.status
    end
  end
end
