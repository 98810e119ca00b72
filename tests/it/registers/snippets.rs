//! The programs of docs/redis.md in PHP and Go run as written. What the one in Java asks is
//! answered.
//!
//! Invariant: of Laravel and Symfony there is only what the programs use of them.

use std::process::Command;

use super::page::blocks;
use crate::common::address::Reserved;
use crate::common::{Client, Settings, Setup, needs, text, wait_until};

/// The page's business. Its limit admits five.
const MAP: &str = "<map><group name='default' keys='1000'/><biz id='1' name='login' key='string'>\
    <limit policy='interval' interval='1h' max='5'/></biz></map>";

/// What the blocks of PHP find in a program of Laravel or Symfony.
const BEFORE_PHP: &str = r"<?php
namespace Illuminate\Support\Facades {
    class Redis {
        public static $client;
        public static function connection($name) { return new self(); }
        public function client() { return self::$client; }
    }
}
namespace Symfony\Component\RateLimiter\Exception {
    class ReserveNotSupportedException extends \BadMethodCallException {}
}
namespace Symfony\Component\RateLimiter {
    class RateLimit {
        public function __construct(
            public int $availableTokens, public \DateTimeImmutable $retryAfter,
            public bool $accepted, public int $limit,
        ) {}
    }
    class Reservation {}
    interface LimiterInterface {
        public function reserve(int $tokens = 1, ?float $maxTime = null): Reservation;
        public function consume(int $tokens = 1): RateLimit;
        public function reset(): void;
    }
}
namespace {
if (!extension_loaded('redis')) { echo 'missing'; exit; }
function abort_if($is, $status) { if ($is) throw new RuntimeException($status); }
class Request { public function ip() { return '10.0.0.1'; } }
";
const BEHIND_PHP: &str = r"
$frs = new Redis();
$frs->connect('127.0.0.1', (int) $argv[1]);
Illuminate\Support\Facades\Redis::$client = $frs;
$layer = new LimitLogins();
$ask = function () use ($layer) {
    try {
        return $layer->handle(new Request(), fn($request) => 200);
    } catch (RuntimeException $refused) {
        return $refused->getMessage();
    }
};
$statuses = array_map($ask, range(1, 6));
$limiter = new FrsLimiter($frs, 'login', 'alice');
$first = $limiter->consume(5);
$second = $limiter->consume();
$late = $second->retryAfter > new DateTimeImmutable('+59 min');
echo json_encode([$statuses, $first->accepted, $first->availableTokens, $second->accepted,
    $second->limit, $late]);
try {
    frs_update($frs, 'nobody', 'alice');
} catch (RuntimeException $error) {
    echo ' ', strtok($error->getMessage(), '(');
}
}
";

const BEFORE_GO: &str = r#"package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
)
"#;
const BEHIND_GO: &str = r#"
func main() {
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})
	site := httptest.NewServer(limitLogins(served))
	for nth := 0; nth < 6; nth++ {
		answer, err := http.Get(site.URL)
		if err != nil {
			panic(err)
		}
		fmt.Print(answer.StatusCode, " ")
	}
}
"#;

fn served() -> (Setup, Reserved) {
    let resp = Reserved::new();
    let more = format!("<resp listen='{}'/>", resp.address);
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    setup.write_map(MAP);
    (setup, resp)
}

// Shows: documents.
#[test]
fn programs_of_php_run_as_written() {
    let (setup, resp) = served();
    let _server = setup.start();
    wait_until("frs listens", || std::net::TcpStream::connect(resp.address).ok());
    let recipes = blocks("php");
    assert_eq!(recipes.len(), 3);
    // `use` stands before everything else of a namespace.
    let (uses, rest): (Vec<&str>, Vec<&str>) =
        recipes.iter().flat_map(|block| block.lines()).partition(|line| line.starts_with("use "));
    let before =
        BEFORE_PHP.replace("namespace {\n", &format!("namespace {{\n{}\n", uses.join("\n")));
    let path = setup.path("page.php");
    std::fs::write(&path, format!("{before}{}{BEHIND_PHP}", rest.join("\n"))).expect("written");
    let mut php = Command::new("php");
    php.arg(path).arg(resp.address.port().to_string());
    let Some(found) = needs::output(&mut php) else { return };
    let said = text(&found.stdout);
    if said == "missing" {
        return needs::skip("phpredis is not installed");
    }
    let expected = r#"[[200,200,200,200,200,"429"],true,0,false,5,true] frs: ERR unknown-biz "#;
    assert_eq!(said, expected, "{}", text(&found.stderr));
}

// Shows: documents.
#[test]
fn the_program_of_go_runs_as_written() {
    let (setup, _resp) = served();
    let _server = setup.start();
    let [middleware] = blocks("go")[..] else { panic!("one block") };
    let middleware = middleware.replace("127.0.0.1:7600", &setup.address.to_string());
    let path = setup.path("page.go");
    std::fs::write(&path, format!("{BEFORE_GO}{middleware}{BEHIND_GO}")).expect("written");
    let mut go = Command::new("go");
    let Some(found) = needs::output(go.arg("run").arg(path).env("GOFLAGS", "-mod=mod")) else {
        return;
    };
    let said = text(&found.stdout);
    assert_eq!(said, "200 200 200 200 200 429 ", "{}", text(&found.stderr));
}

// Shows: documents.
#[test]
fn what_the_program_of_java_asks_is_answered() {
    let (setup, _resp) = served();
    let _server = setup.start();
    let [program] = blocks("java")[..] else { panic!("one block") };
    let (_, rest) = program.split_once(".uri(\"").expect("a path");
    let path = rest.split('"').next().expect("its end").replace("{key}", "bob");
    let statuses: Vec<u16> =
        (0..6).map(|_| Client::connect(setup.address).get(&path).status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
}
