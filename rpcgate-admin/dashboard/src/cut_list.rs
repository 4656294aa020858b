//! Paginated lists: those that are read as a whole (`?page=2`), and those that the database paginates (`?cursor=…`).

use super::filters::grouped;
use super::form::FieldList;
use super::parts::PageLinks;
use rpcgate_core::clock::Time;
use rpcgate_management::error::ActionError;
use rpcgate_management::shape::list::{PageRequest, time_cursor};
use std::fmt::Display;
use std::str::FromStr;

pub(crate) const ENTRIES: usize = 100;

/// Returns the requested page of `all` and the links to its neighbours. `path` is the page's address below the root,
/// without a query.
pub(crate) fn cut<T>(all: Vec<T>, query: &FieldList, path: &str) -> (Vec<T>, PageLinks) {
    let number = all.len();
    if number <= ENTRIES {
        return (all, PageLinks::default());
    }
    let last = number.div_ceil(ENTRIES);
    let current = query.one("page").parse::<usize>().unwrap_or(1).clamp(1, last);
    let first = (current - 1) * ENTRIES;
    let rest = query.query_without(&["page", "done"]);
    let link = |page: usize| {
        let joint = if rest.is_empty() { "" } else { "&" };
        format!("{path}?{rest}{joint}page={page}")
    };
    let end = number.min(first + ENTRIES);
    let text = |number: usize| grouped(number as u128);
    let links = PageLinks {
        summary: format!("{} to {} of {}", text(first + 1), text(end), text(number)),
        newer: (current > 1).then(|| link(current - 1)),
        older: (current < last).then(|| link(current + 1)),
    };
    (all.into_iter().skip(first).take(ENTRIES).collect(), links)
}

/// Reads the cursor of a list that the database paginates.
///
/// # Errors
/// [`ActionError::Invalid`] for a cursor that no list has issued.
pub(crate) fn cursor<I: FromStr>(query: &FieldList) -> Result<Option<(Time, I)>, ActionError> {
    let Some(text) = query.filled("cursor") else { return Ok(None) };
    let position = text
        .split_once('-')
        .and_then(|(at, id)| Some((Time::from_micros(at.parse().ok()?), id.parse().ok()?)));
    position.map(Some).ok_or_else(PageRequest::bad_cursor)
}

/// Returns the links of a page from the database. `next` is the page's last entry, if others follow.
pub(crate) fn cursor_links(query: &FieldList, path: &str, next: Option<(Time, impl Display)>) -> PageLinks {
    let rest = query.query_without(&["cursor", "done"]);
    let first = if rest.is_empty() { path.to_owned() } else { format!("{path}?{rest}") };
    let joint = if rest.is_empty() { '?' } else { '&' };
    PageLinks {
        summary: String::new(),
        older: next.map(|(at, id)| format!("{first}{joint}cursor={}", time_cursor(at, id))),
        newer: query.filled("cursor").map(|_| first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_continues_a_list_and_the_first_part_is_one_step_away() {
        let query = FieldList::of("status=failed&cursor=7-9&done=x").unwrap();
        assert_eq!(cursor::<u64>(&query).unwrap(), Some((Time::from_micros(7), 9)));
        let links = cursor_links(&query, "webhooks/1", Some((Time::from_micros(5), 6)));
        assert_eq!(links.older.as_deref(), Some("webhooks/1?status=failed&cursor=5-6"));
        assert_eq!(links.newer.as_deref(), Some("webhooks/1?status=failed"));
        let links = cursor_links(&FieldList::default(), "webhooks/1", Some((Time::from_micros(5), 6)));
        assert_eq!((links.older.as_deref(), links.newer), (Some("webhooks/1?cursor=5-6"), None));
        assert_eq!(cursor::<u64>(&FieldList::default()).unwrap(), None);
        for wrong in ["cursor=x", "cursor=7", "cursor=7-x", "cursor=-7-9"] {
            assert!(cursor::<u64>(&FieldList::of(wrong).unwrap()).is_err(), "{wrong}");
        }
    }

    fn shown(number: usize, query: &str) -> (Option<usize>, usize, PageLinks) {
        let fields = FieldList::of(query).unwrap();
        let (part, links) = cut((0..number).collect(), &fields, "projects");
        (part.first().copied(), part.len(), links)
    }

    #[test]
    fn a_short_list_is_complete_and_a_long_one_has_links_to_its_pages() {
        assert_eq!(shown(0, ""), (None, 0, PageLinks::default()));
        assert_eq!(shown(100, "page=7"), (Some(0), 100, PageLinks::default()));
        let (first, entries, links) = shown(1_250, "show=ended&page=2&done=x");
        assert_eq!((first, entries, links.summary.as_str()), (Some(100), 100, "101 to 200 of 1,250"));
        assert_eq!(links.newer.as_deref(), Some("projects?show=ended&page=1"));
        assert_eq!(links.older.as_deref(), Some("projects?show=ended&page=3"));
        let (first, entries, links) = shown(1_250, "page=99");
        assert_eq!((first, entries, links.older), (Some(1_200), 50, None));
        for wrong in ["page=0", "page=-1", "page=x", ""] {
            assert_eq!(shown(101, wrong).0, Some(0), "{wrong}");
        }
    }
}
