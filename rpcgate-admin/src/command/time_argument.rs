//! Times as arguments.

use super::command_error::CommandError;
use rpcgate_core::clock::Time;
use rpcgate_management::shape::moment::Moment;

/// Parses the time in `text`, the value of `option`, in the form of RFC 3339.
pub(super) fn time(option: &str, text: &str) -> Result<Time, CommandError> {
    let found = Moment::parse(text).map(|Moment(time)| time);
    found.ok_or_else(|| CommandError::usage(format!("{option} must be a time such as 2027-01-31T12:00:00Z")))
}
