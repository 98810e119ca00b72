//! gRPC's own client library: the Python package grpcio.

use std::process::Command;

use super::Stage;
use crate::common::{needs, text};

/// Calls as grpcio makes them: with and without compression, over one channel and many, with
/// deadlines, and health checks.
const SCRIPT: &str = r#"
import sys
import grpc

def field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value

def ask(user):
    entries = field(1, field(1, b"user") + field(2, user)) + field(1, field(1, b"path") + field(2, b"/login"))
    return field(1, b"edge") + field(2, entries)

raw = lambda data: data
target = sys.argv[1]
with grpc.insecure_channel(target) as channel:
    limit = channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                                request_serializer=raw, response_deserializer=raw)
    codes = [limit(ask(b"alice"), timeout=20)[1] for _ in range(6)]
    assert codes == [1, 1, 1, 1, 1, 2], codes
    calls = [limit.future(ask(b"user%d" % (n % 100)), timeout=20) for n in range(1000)]
    codes = [call.result()[1] for call in calls]
    assert codes.count(1) == 500 and codes.count(2) == 500, codes
    def refused(data, expected, **options):
        try:
            limit(data, timeout=20, **options)
        except grpc.RpcError as error:
            assert error.code() is expected, error
            return error.details()
        raise AssertionError("answered")
    details = refused(field(1, b"edge"), grpc.StatusCode.INVALID_ARGUMENT)
    assert details == "found no descriptor, expected at least one", details
    refused(ask(b"a") + bytes(100), grpc.StatusCode.INVALID_ARGUMENT)
    refused(bytes([26, 0]) * (1 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED)
    refused(ask(b"alice") * 50, grpc.StatusCode.UNIMPLEMENTED, compression=grpc.Compression.Gzip)
    unknown = channel.unary_unary("/a.B/C", request_serializer=raw, response_deserializer=raw)
    try:
        unknown(b"", timeout=20)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED, error
    check = channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=raw,
                                response_deserializer=raw)
    assert check(b"", timeout=20) == b"\x08\x01"
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch", request_serializer=raw,
                                 response_deserializer=raw)
    watching = watch(b"")
    assert next(watching) == b"\x08\x01"
    watching.cancel()
    assert limit(ask(b"bob"), timeout=20)[1] == 1
"#;

// Shows: envoy-api.
#[test]
fn grpcio_is_served() {
    let imports = Command::new("python3").args(["-c", "import grpc"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        return needs::skip("grpcio is not installed");
    }
    let stage = Stage::new("");
    let _server = stage.setup.start();
    let target = stage.rls.address.to_string();
    let output = Command::new("python3").args(["-c", SCRIPT, &target]).output().expect("it runs");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}
