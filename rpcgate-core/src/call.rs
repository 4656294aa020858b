//! Calls of any protocol, their entries, and the set of calls that passes through the stack.

mod entry;
mod set;
mod single;
mod stage;
mod view;

pub use entry::{CallState, Entry};
pub use set::Calls;
pub use single::{AtNode, Call, NO_METHOD, Payload};
pub use stage::{
    Before, Budgeted, Cached, Listed, Opened, Paced, Parsed, Placed, Reserved, Served, Settled, Windowed,
};
pub use view::CallView;
