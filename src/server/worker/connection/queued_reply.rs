//! The form of the answer to a queued or parked request.

use crate::protocol::call::Call;
use crate::protocol::resp::AnswerForm;
use crate::protocol::response_head::ResponseOptions;

/// The most requests that wait to run together.
pub const QUEUE: usize = 16;
/// How to answer a request in the queue.
#[derive(Debug, Clone, Copy)]
pub struct QueuedReply {
    pub manner: ReplyForm,
    pub batch_index: usize,
}

/// The form of an answer, by protocol.
#[derive(Debug, Clone, Copy)]
pub enum ReplyForm {
    Http {
        call: Call,
        /// The status of a limited item. `None`: each item carries its own result, and the status
        /// is 200.
        refusal: Option<u16>,
        options: ResponseOptions,
    },
    Resp(AnswerForm),
}
