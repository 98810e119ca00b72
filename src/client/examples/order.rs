//! Customers order at once, each in its own thread. An order takes a piece of the sale and sends a
//! message, or does neither.
//!
//! It attaches to a running server by the data directory. It starts no server:
//!
//! ```text
//! cargo run -p frs --example order -- data
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::thread;

use frs::{Client, Item};

#[derive(Clone, Copy)]
struct Customer {
    name: &'static str,
    telephone: u64,
}

const CUSTOMERS: [Customer; 4] = [
    Customer { name: "alice", telephone: 18829340001 },
    Customer { name: "bob", telephone: 18829340002 },
    Customer { name: "carol", telephone: 18829340003 },
    Customer { name: "dave", telephone: 18829340004 },
];
/// Orders that each customer tries. conf/map.xml grants three a day.
const TRIES: usize = 5;

fn main() -> ExitCode {
    let data_dir = std::env::args().nth(1).unwrap_or_else(|| "data".to_owned());
    match order_all(&data_dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("order: {error}");
            let mut source = error.source();
            while let Some(reason) = source {
                eprintln!("  because: {reason}");
                source = reason.source();
            }
            eprintln!("usage: order [DATA]; `cargo run --release` starts a server on ./data");
            ExitCode::FAILURE
        }
    }
}

fn order_all(data_dir: &str) -> Result<(), Box<dyn Error>> {
    // One client serves all threads.
    let client = Client::attach(data_dir)?;
    thread::scope(|scope| {
        let order = |&customer| {
            scope.spawn({
                let client = &client;
                move || order_some(client, customer)
            })
        };
        let threads: Vec<_> = CUSTOMERS.iter().map(order).collect();
        for (thread, Customer { name, .. }) in threads.into_iter().zip(CUSTOMERS) {
            let made = thread.join().map_err(|_| "a customer's thread panicked")??;
            println!("{name}: {made} of {TRIES} orders");
        }
        Ok(())
    })
}

/// Tries some orders of a customer, and returns how many were made.
fn order_some(client: &Client, customer: Customer) -> Result<usize, frs::Error> {
    let Customer { name, telephone } = customer;
    let order =
        client.batch().item(Item::new("seckill", name)).item(Item::new("sms", telephone)).atomic();
    let mut made = 0;
    for _ in 0..TRIES {
        let answers = order.run()?;
        if !answers.refused {
            made += 1;
        }
    }
    Ok(made)
}
