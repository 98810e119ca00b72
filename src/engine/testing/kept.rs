//! What a request keeps of the options that few items have, for tests that compare requests.
//!
//! Invariant: two values are equal if and only if the requests keep the same.

use crate::{Extras, Item, ItemOptions, Request};

/// What a request keeps of such options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Those that are no numbers for limits.
    pub others: Extras<String>,
    /// The numbers, as their debug text.
    pub numbers: String,
}

impl Extras<String> {
    /// What a request keeps of them.
    pub fn kept(&self) -> Kept {
        let mut request = Request::default();
        request.push("", "", ItemOptions::ONE);
        let Extras { rate, member, once, hold, .. } = self;
        let [rate, member, once, hold] = [rate, member, once, hold].map(Option::as_deref);
        let texts = Extras { rate, member, once, hold, ..Extras::NONE };
        let Extras { burst, max, partial, ttl_ms, settle, .. } = *self;
        request.bring(Extras { burst, max, partial, ttl_ms, settle, ..texts });
        request.kept(&request.items()[0])
    }
}

impl Request {
    /// Everything that a request keeps of the options of an item that few items have.
    pub fn kept(&self, item: &Item) -> Kept {
        let numbers = format!("{:?}", self.numbers(item));
        Kept { others: self.extras(item).map(str::to_owned), numbers }
    }
}
