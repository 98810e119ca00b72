//! The clients of a worker that have parked a request, and their deadlines.
//!
//! Invariant: a client is in the list at most once, and only while it has something parked. The
//! list has the order of parking, so the client that waits longest resumes first.

/// Clients that wait for replies.
#[derive(Debug, Default)]
pub struct ParkedClients {
    waiting: Vec<ParkedClient>,
    /// No deadline is before this time.
    next_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct ParkedClient {
    client: u32,
    until_ms: u64,
}

impl ParkedClients {
    /// Whether no client waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A lower bound of the earliest deadline. `None` if no client waits.
    #[inline]
    pub fn due_ms(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.next_ms)
    }

    /// Adds a client, or gives it another deadline.
    pub fn add(&mut self, client: u32, until_ms: u64) {
        self.next_ms = if self.is_empty() { until_ms } else { self.next_ms.min(until_ms) };
        match self.waiting.iter_mut().find(|waiting| waiting.client == client) {
            Some(waiting) => waiting.until_ms = until_ms,
            None => self.waiting.push(ParkedClient { client, until_ms }),
        }
    }

    /// The number of waiting clients.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Makes the list due at once if `may_go_on` is true for any client.
    pub fn look(&mut self, now_ms: u64, mut may_go_on: impl FnMut(u32) -> bool) {
        if self.waiting.iter().any(|waiting| may_go_on(waiting.client)) {
            self.next_ms = now_ms;
        }
    }

    /// Removes a client, if it is in the list.
    pub fn remove(&mut self, client: u32) {
        self.waiting.retain(|waiting| waiting.client != client);
    }

    /// Removes the clients for which `may_go_on` is true and those at their deadline. Puts them at
    /// the front of `to_run`, in the order of parking.
    pub fn take_due(
        &mut self,
        now_ms: u64,
        mut may_go_on: impl FnMut(u32) -> bool,
        to_run: &mut Vec<u32>,
    ) {
        let is_due =
            |waiting: &mut ParkedClient| now_ms >= waiting.until_ms || may_go_on(waiting.client);
        let due = self.waiting.extract_if(.., is_due).map(|waiting| waiting.client);
        to_run.splice(0..0, due);
        self.next_ms = self.waiting.iter().map(|waiting| waiting.until_ms).min().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_on_in_the_order_of_parking_and_before_those_that_were_read() {
        let mut parked = ParkedClients::default();
        assert_eq!((parked.is_empty(), parked.due_ms()), (true, None));
        for (client, until_ms) in [(7, 50), (3, 40), (9, 90)] {
            parked.add(client, until_ms);
        }
        assert_eq!(parked.due_ms(), Some(40));
        let mut to_run = vec![1, 2];
        parked.take_due(39, |client| client == 9, &mut to_run);
        assert_eq!(to_run, [9, 1, 2], "its reply has come");
        to_run.clear();
        parked.take_due(50, |_| false, &mut to_run);
        assert_eq!(to_run, [7, 3], "their deadlines are over");
        assert!(parked.is_empty());
    }

    #[test]
    fn a_client_is_in_the_list_once_and_leaves_it() {
        let mut parked = ParkedClients::default();
        parked.add(1, 10);
        parked.add(1, 30);
        assert_eq!(parked.due_ms(), Some(10), "at the earliest");
        let mut to_run = Vec::new();
        parked.take_due(29, |_| false, &mut to_run);
        assert_eq!((to_run.len(), parked.due_ms()), (0, Some(30)));
        parked.remove(1);
        assert_eq!((parked.is_empty(), parked.due_ms()), (true, None));
    }
}
