//! The position in a list ordered by time, as part of the next page's address.

use rpcgate_core::clock::Time;
use rpcgate_management::error::ActionError;
use std::str::FromStr;

/// The query parameter for the position after which a page begins.
pub(super) const BEFORE: &str = "before";

/// The query parameter for the position after which a page begins in a list with the oldest entry first.
pub(super) const AFTER: &str = "after";

/// Reads a cursor of [`time_cursor`](rpcgate_management::shape::list::time_cursor); an empty text means the beginning.
///
/// # Errors
/// [`ActionError::Invalid`] for any other text.
pub(super) fn read<I: FromStr>(text: &str) -> Result<Option<(Time, I)>, ActionError> {
    if text.is_empty() {
        return Ok(None);
    }
    let read = || {
        let (at, id) = text.split_once('-')?;
        Some((Time::from_micros(at.parse().ok()?), id.parse().ok()?))
    };
    read().map(Some).ok_or_else(|| ActionError::invalid("this is not a position in this list"))
}

/// Returns the address of the next page of the list at `path`, with the filters in `query`.
pub(super) fn older(path: &str, query: &str, cursor: &str) -> String {
    let joint = if query.is_empty() { "" } else { "&" };
    format!("{path}?{query}{joint}{BEFORE}={cursor}")
}

/// Returns the address of the next page of a list with the oldest entry first.
pub(super) fn newer(path: &str, query: &str, cursor: &str) -> String {
    let joint = if query.is_empty() { "" } else { "&" };
    format!("{path}?{query}{joint}{AFTER}={cursor}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_management::shape::list::time_cursor;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let at = Time::from_micros(7);
        assert_eq!(read::<i64>(&time_cursor(at, 9)).unwrap(), Some((at, 9)));
        assert_eq!(read::<i64>("").unwrap(), None);
        for wrong in ["7", "7-x", "x-7", "-", "<script>"] {
            assert!(read::<i64>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_next_page_keeps_the_filters() {
        assert_eq!(older("support", "", "7-9"), "support?before=7-9");
        assert_eq!(older("support", "status=open", "7-9"), "support?status=open&before=7-9");
        assert_eq!(newer("operator/tenants", "", "7"), "operator/tenants?after=7");
        assert_eq!(newer("operator/tenants", "plan=free", "7"), "operator/tenants?plan=free&after=7");
    }
}
