//! How a request that is in the queue, or parked, is answered.

use crate::protocol::call::Call;
use crate::protocol::response_head::ResponseOptions;

/// The most requests that wait to run together.
pub const QUEUE: usize = 16;
/// How to answer a request in the queue.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    pub call: Call,
    /// The status of a limited item. `None`: each item carries its own result, the status is 200.
    pub refusal: Option<u16>,
    pub options: ResponseOptions,
    pub batch_index: usize,
}
