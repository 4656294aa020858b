//! Paged lists: `limit` is the number of entries, `cursor` the position where a page starts. The response is an array.
//! If there are more entries, its `Link` header names the next page (RFC 8288).

use crate::error::ActionError;
use crate::shape::csv;
use crate::strict_json;
use axum::Json;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue, LINK};
use http::request::Parts;
use rpcgate_core::clock::Time;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::str::FromStr;
use utoipa::IntoParams;

/// The default number of entries.
const DEFAULT: u64 = 100;

/// The largest number of entries.
pub const MAX: u64 = 1_000;

/// The parameters of a list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// The number of entries, 100 by default.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u64>,
    /// The cursor from the `Link` header of the previous page.
    pub cursor: Option<String>,
}

/// The requested page of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageRequest {
    /// The number of entries.
    pub limit: u64,
    /// The entry after which to continue, in the list's own format.
    pub cursor: Option<String>,
    /// The other parameters, which the link to the next page repeats.
    rest: Vec<(String, String)>,
}

impl<S: Send + Sync> FromRequestParts<S> for PageRequest {
    type Rejection = ActionError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ActionError> {
        let query = parts.uri.query().unwrap_or_default();
        let Page { limit, cursor } = strict_json::of_query(query)?;
        let limit = limit.unwrap_or(DEFAULT);
        if !(1..=MAX).contains(&limit) {
            return Err(ActionError::named("limit", format!("must be a whole number from 1 to {MAX}")));
        }
        let rest = form_urlencoded::parse(query.as_bytes()).into_owned();
        let rest = rest.filter(|(name, _)| !matches!(name.as_str(), "limit" | "cursor")).collect();
        Ok(PageRequest { limit, cursor, rest })
    }
}

impl PageRequest {
    /// Returns the error for a cursor that this list has not issued.
    pub fn bad_cursor() -> ActionError {
        ActionError::named("cursor", "must be a cursor of this list")
    }

    /// Parses the cursor.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for a cursor that this list has not issued.
    pub fn read<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, ActionError> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        read(cursor).map(Some).ok_or_else(PageRequest::bad_cursor)
    }

    /// Parses a cursor that [`time_cursor`] wrote.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for any other cursor.
    pub fn time_cursor<I: FromStr>(&self) -> Result<Option<(Time, I)>, ActionError> {
        self.read(|cursor| {
            let (at, id) = cursor.split_once('-')?;
            Some((Time::from_micros(at.parse().ok()?), id.parse().ok()?))
        })
    }

    /// Returns a page that the database has cut, ordered by time. `cursor` returns the [`time_cursor`] of an entry.
    pub fn cut<T>(self, entries: Vec<T>, cursor: impl Fn(&T) -> String) -> ListPage<T> {
        let last = entries.last().filter(|_| entries.len() as u64 == self.limit);
        let next = last.map(cursor);
        self.page(entries, next)
    }

    /// Returns the requested page of `all`. `id` identifies an entry and orders the list by time, `newest_first` or
    /// not. A page can therefore continue after an entry that no longer exists.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for a cursor that is not an identifier.
    pub fn of<T>(
        self,
        mut all: Vec<T>,
        newest_first: bool,
        id: impl Fn(&T) -> &str,
    ) -> Result<ListPage<T>, ActionError> {
        if let Some(cursor) = self.read(|cursor| cursor.parse::<uuid::Uuid>().ok())? {
            let cursor = cursor.to_string();
            let follows =
                |one: &T| if newest_first { id(one) < cursor.as_str() } else { id(one) > cursor.as_str() };
            let position = all.iter().position(|one| id(one) == cursor).map(|at| at + 1);
            let begin = position.or_else(|| all.iter().position(follows)).unwrap_or(all.len());
            all.drain(..begin);
        }
        let more = all.len() as u64 > self.limit;
        all.truncate(self.limit as usize);
        let next = all.last().filter(|_| more).map(|last| id(last).to_owned());
        Ok(self.page(all, next))
    }

    /// Returns a page that the database has already cut. `next` is the cursor of the next page.
    pub fn page<T>(self, entries: Vec<T>, next: Option<String>) -> ListPage<T> {
        let next = next.map(|cursor| {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.extend_pairs(&self.rest);
            query.append_pair("limit", &self.limit.to_string()).append_pair("cursor", &cursor);
            format!("<?{}>; rel=\"next\"", query.finish())
        });
        ListPage { entries, next }
    }
}

/// Returns the cursor after an entry of a list that is ordered by time, and by identifier at equal times.
pub fn time_cursor(at: Time, id: impl Display) -> String {
    format!("{}-{id}", at.micros())
}

/// A page of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListPage<T> {
    entries: Vec<T>,
    /// The `Link` header.
    next: Option<String>,
}

impl<T> ListPage<T> {
    /// Returns a page with all entries.
    pub fn complete(entries: Vec<T>) -> Self {
        ListPage { entries, next: None }
    }

    /// Converts the entries of the page.
    pub fn map<U>(self, entry: impl FnMut(T) -> U) -> ListPage<U> {
        ListPage { entries: self.entries.into_iter().map(entry).collect(), next: self.next }
    }
}

impl<T> ListPage<T> {
    /// Returns the page as a CSV file with these columns, called `name`. `cells` converts an entry. The `Link` header
    /// names the next page as for JSON.
    pub fn csv<const N: usize>(
        self,
        name: &str,
        columns: [&str; N],
        cells: impl Fn(T) -> [String; N],
    ) -> Response {
        let mut text = csv::file();
        csv::line(&mut text, columns.into_iter().map(str::to_owned));
        for entry in self.entries {
            csv::line(&mut text, cells(entry).into_iter().map(csv::harmless));
        }
        let file = format!("attachment; filename=\"{name}.csv\"");
        let headers = [(CONTENT_TYPE, csv::MEDIA_TYPE), (CONTENT_DISPOSITION, file.as_str())];
        linked((headers, text).into_response(), self.next)
    }
}

fn linked(mut answer: Response, next: Option<String>) -> Response {
    if let Some(next) = next.and_then(|next| HeaderValue::try_from(next).ok()) {
        answer.headers_mut().insert(LINK, next);
    }
    answer
}

impl<T: Serialize> IntoResponse for ListPage<T> {
    fn into_response(self) -> Response {
        linked(Json(self.entries).into_response(), self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(limit: u64, cursor: Option<&str>) -> PageRequest {
        PageRequest { limit, cursor: cursor.map(str::to_owned), rest: vec![("status".into(), "a b".into())] }
    }

    fn ids(numbers: impl IntoIterator<Item = u128>) -> Vec<String> {
        numbers.into_iter().map(|number| uuid::Uuid::from_u128(number).to_string()).collect()
    }

    // Shows (Management).
    #[test]
    fn a_page_begins_after_its_cursor_even_if_that_entry_was_removed() {
        let of =
            |part: PageRequest, all: Vec<String>, newest_first| part.of(all, newest_first, |id| id).unwrap();
        let page = of(part(2, None), ids(1..=5), false);
        assert_eq!(page.entries, ids(1..=2));
        let link = "<?status=a+b&limit=2&cursor=00000000-0000-0000-0000-000000000002>; rel=\"next\"";
        assert_eq!(page.next.as_deref(), Some(link));
        let third = ids([3]).remove(0);
        for all in [ids(1..=5), ids([1, 2, 4, 5])] {
            let page = of(part(2, Some(&third)), all, false);
            assert_eq!((page.entries, page.next), (ids([4, 5]), None));
        }
        for all in [ids((1..=5).rev()), ids([5, 4, 2, 1])] {
            assert_eq!(of(part(9, Some(&third)), all, true).entries, ids([2, 1]));
        }
        assert!(of(part(2, Some(&ids([9]).remove(0))), ids(1..=5), false).entries.is_empty());
        let error = part(2, Some("x")).of(ids(1..=5), false, |id| id).unwrap_err();
        assert_eq!(error.to_string(), "`cursor` must be a cursor of this list");
    }
}
