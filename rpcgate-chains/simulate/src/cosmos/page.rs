//! Pagination, as every module of the SDK does it.

use super::fault::Fault;
use crate::json::{Json, object};
use crate::target::Target;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// The number of items in a page if the request does not set it.
const ITEMS: u64 = 100;

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// Decodes base64 in either alphabet, as grpc-gateway does.
pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}

#[derive(Debug, Default)]
pub(crate) struct Page {
    key: Vec<u8>,
    offset: u64,
    limit: u64,
    count: bool,
    reverse: bool,
}

/// Reads a query parameter as a number.
pub(crate) fn number(target: &Target, name: &str) -> Result<u64, Fault> {
    let Some(text) = target.get(name).filter(|text| !text.is_empty()) else {
        return Ok(0);
    };
    text.parse().map_err(|_| {
        Fault::argument(format!(
            "parsing field {name:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

fn flag(target: &Target, name: &str) -> Result<bool, Fault> {
    match target.get(name) {
        None | Some("" | "0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some(text) => Err(Fault::argument(format!(
            "parsing field {name:?}: strconv.ParseBool: parsing {text:?}: invalid syntax"
        ))),
    }
}

impl Page {
    /// Reads `pagination.*`.
    pub(crate) fn read(target: &Target) -> Result<Self, Fault> {
        let key = target.get("pagination.key").unwrap_or_default();
        let page = Page {
            key: unbase64(key).ok_or_else(|| {
                Fault::argument("parsing field \"pagination.key\": illegal base64 data at input byte 0")
            })?,
            offset: number(target, "pagination.offset")?,
            limit: number(target, "pagination.limit")?,
            count: flag(target, "pagination.count_total")?,
            reverse: flag(target, "pagination.reverse")?,
        };
        if page.offset > 0 && !page.key.is_empty() {
            return Err(Fault::argument(
                "paginate: invalid request, either offset or key is expected, got both",
            ));
        }
        Ok(page)
    }

    /// Cuts the page out of `items`, which are ordered by key, and writes `pagination`.
    pub(crate) fn cut<T>(&self, mut items: Vec<(Vec<u8>, T)>) -> (Vec<T>, Json) {
        let total = items.len();
        if self.reverse {
            items.reverse();
        }
        // A request without a limit also gets the total count.
        let (limit, count) = if self.limit == 0 { (ITEMS, true) } else { (self.limit, self.count) };
        let skipped = if self.key.is_empty() {
            usize::try_from(self.offset).unwrap_or(usize::MAX)
        } else if self.reverse {
            items.iter().take_while(|(key, _)| *key > self.key).count()
        } else {
            items.iter().take_while(|(key, _)| *key < self.key).count()
        };
        let mut rest = items.into_iter().skip(skipped);
        let page = rest.by_ref().take(usize::try_from(limit).unwrap_or(usize::MAX)).map(|(_, item)| item);
        let page: Vec<T> = page.collect();
        let next = rest.next().map(|(key, _)| base64(key));
        let total = if count && self.key.is_empty() { total } else { 0 };
        (page, object! { "next_key": next, "total": total.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(query: &str) -> (Vec<u8>, String) {
        let items = (1..=5u8).map(|n| (vec![n], n)).collect();
        let (page, pagination) = Page::read(&Target::read(&format!("/x?{query}"))).unwrap().cut(items);
        let mut out = String::new();
        pagination.write(&mut out);
        (page, out)
    }

    #[test]
    fn pages_follow_each_other_by_their_keys() {
        assert_eq!(cut("pagination.limit=2"), (vec![1, 2], r#"{"next_key":"Aw==","total":"0"}"#.into()));
        assert_eq!(
            cut("pagination.limit=2&pagination.key=Aw%3D%3D"),
            (vec![3, 4], r#"{"next_key":"BQ==","total":"0"}"#.into())
        );
        assert_eq!(cut("pagination.key=BQ==").0, [5]);
        assert_eq!(cut("pagination.limit=2&pagination.reverse=true").0, [5, 4]);
        assert_eq!(cut("pagination.offset=3&pagination.limit=9&pagination.count_total=true").0, [4, 5]);
        assert_eq!(cut(""), (vec![1, 2, 3, 4, 5], r#"{"next_key":null,"total":"5"}"#.into()));
        assert_eq!(cut("pagination.limit=18446744073709551615").0.len(), 5);
    }

    #[test]
    fn an_invalid_page_is_refused() {
        for query in [
            "pagination.limit=-1",
            "pagination.limit=x",
            "pagination.key=%",
            "pagination.key=Aw==&pagination.offset=1",
            "pagination.reverse=perhaps",
        ] {
            let fault = Page::read(&Target::read(&format!("/x?{query}"))).unwrap_err();
            assert_eq!((fault.code, fault.status()), (3, 400), "{query}");
        }
    }
}
