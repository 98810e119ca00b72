//! The recipes of docs/resp.md run as written, with the clients that they name and the businesses
//! that the page shows.

use std::process::Command;

use super::clients;
use super::driver::{Driver, Kind, with_clients};
use crate::common::address::Reserved;
use crate::common::{Settings, Setup, text};

const PAGE: &str = include_str!("../../../docs/resp.md");

/// The text of each block in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    PAGE.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// The businesses that the page shows, including that of CL.THROTTLE, and one that the recipe of an
/// atomic command names.
fn map() -> String {
    let shown = blocks("xml").into_iter().filter(|block| block.contains("<biz "));
    let total = "<biz id='9' name='total' key='string'><limit policy='total' max='9'/></biz>";
    let group = "<group name='default' files='1' key-nodes='64' chain='8' node-size='512'/>";
    format!("<map>{group}{}{total}</map>", shown.collect::<String>())
}

/// Runs the recipes of a language, between `before` and `behind`, against a server at the port that
/// they name.
fn run(kind: &'static Kind, file: &str, recipes: &[&str], before: &str, behind: &str) {
    if Driver::start(kind).is_none() {
        return;
    }
    let resp = Reserved::new();
    let more = format!("<resp listen='{}' throttle='throttle'/>", resp.address);
    let setup = Setup::new(&Settings { more, ..Settings::default() });
    setup.write_map(&map());
    let _server = setup.start();
    assert!(!recipes.is_empty());
    let script = format!("{before}\n{}\n{behind}\n", recipes.join("\n"));
    assert!(script.contains("6380"), "{script}");
    let script = script.replace("6380", &resp.address.port().to_string());
    let path = setup.path(file);
    std::fs::write(&path, &script).expect("written");
    let mut command: Command = with_clients(kind.program);
    let output = command.arg(path).output().expect("run");
    assert!(output.status.success(), "{script}\n{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "done\n", "{script}");
}

// Shows: redis-clients.
#[test]
fn recipes_of_python_run_as_written() {
    let before = "
import redis

class TooMany(Exception):
    def __init__(self, retry_ms=None):
        self.retry_ms = retry_ms

user, number, client, cost = 'alice', '18829340001', '192.0.2.1', 2
";
    let behind = "
# What the recipes have charged.
for biz, key, used in [('login', user, 1), ('sms', number, 1), ('api', client, 3), ('total', 'all', 1)]:
    reply = redis.Redis(port=6380, protocol=2).execute_command('FRS.QUERY', biz, key)
    found = dict(zip(reply[::2], reply[1::2]))
    # A token may have come back.
    assert used - 1 <= found[b'used'] <= used, (biz, found)
assert [limited('login', user) for _ in range(5)] == [False] * 4 + [True]
print('done')
";
    // Leaves out the code that the recipes replace, and two ways to send a retry.
    let is_recipe = |block: &&str| !block.contains("r.incr(") && !block.contains("NoBackoff");
    let recipes: Vec<_> =
        blocks("python").into_iter().filter(|block| is_recipe(&&**block)).collect();
    assert_eq!(recipes.len(), 5);
    run(&clients::redis_py::KIND, "recipes.py", &recipes, before, behind);
}

// Shows: redis-clients.
#[test]
fn recipes_of_node_run_as_written() {
    let before = "
const { createClient } = require('redis');
const Redis = require('ioredis');
class TooMany extends Error {
  constructor(retry) { super('too many'); this.retry = retry; }
}
";
    let behind = "
(async () => {
  for (const [recipe, user] of [[by_node_redis, 'bob'], [by_ioredis, 'carol']]) {
    for (let used = 1; used <= 5; used += 1) {
      const verdict = await recipe(user);
      if (verdict.used !== used || verdict.max !== 5) throw new Error(JSON.stringify(verdict));
    }
    const refused = await recipe(user).catch((error) => error);
    if (!(refused instanceof TooMany && refused.retry > 0)) throw new Error(String(refused));
  }
  console.log('done');
  process.exit();
})();
";
    // Each recipe is asynchronous, and runs for several users.
    let [node_redis, ioredis] = blocks("js")[..] else { panic!("two recipes") };
    let function =
        |name, recipe| format!("async function {name}(user) {{\n{recipe}return verdict;\n}}");
    let recipes = [function("by_node_redis", node_redis), function("by_ioredis", ioredis)];
    run(
        &clients::node_redis::KIND,
        "recipes.js",
        &recipes.each_ref().map(|one| &**one),
        before,
        behind,
    );
}
