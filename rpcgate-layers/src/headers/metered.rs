//! Builds the headers of a response to an authenticated caller.
//!
//! Every such response carries the same fifteen names, and inserting them into an empty table costs more than the
//! values do. So a filled table is cloned, and only its values are replaced.

use super::{CACHE, COMPUTE_UNITS, EXPOSED, RATE, REQUEST_ID, rates};
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue,
};
use rpcgate_core::caller::RequestId;
use rpcgate_core::window::Windows;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::LazyLock;

/// The facts about a response that its headers carry.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metered {
    /// The id of the request.
    pub id: RequestId,
    /// The state of the caller's windows, if the rate headers are written.
    pub windows: Option<Windows>,
    /// The Compute Units charged.
    pub units: u64,
    /// True if all answers were stored before the request arrived.
    pub hit: bool,
    /// True if the body is JSON. Then the response's own headers have no content type.
    pub is_json: bool,
    /// True for the answer to a gRPC call, which has no CORS headers because no browser reads it.
    pub is_grpc: bool,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

#[derive(Clone, Copy)]
enum Field {
    Same,
    Id,
    Units,
    Cache,
    ContentType,
    Rate(usize),
}

/// A filled table, and the meaning of each of its entries.
type Sheet = (HeaderMap, Vec<Field>);

static SHEET: LazyLock<Sheet> = LazyLock::new(|| sheet(true));
static GRPC_SHEET: LazyLock<Sheet> = LazyLock::new(|| sheet(false));

fn sheet(has_cors: bool) -> Sheet {
    let mut headers = HeaderMap::with_capacity(32);
    let blank = HeaderValue::from_static("");
    if has_cors {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    headers.insert(CONTENT_TYPE, JSON);
    for name in [REQUEST_ID, COMPUTE_UNITS, CACHE].into_iter().chain(RATE) {
        headers.insert(name, blank.clone());
    }
    let field = |name: &HeaderName| match name {
        name if *name == REQUEST_ID => Field::Id,
        name if *name == COMPUTE_UNITS => Field::Units,
        name if *name == CACHE => Field::Cache,
        name if *name == CONTENT_TYPE => Field::ContentType,
        name => RATE.iter().position(|rate| rate == name).map_or(Field::Same, Field::Rate),
    };
    let fields = headers.keys().map(field).collect();
    (headers, fields)
}

impl Metered {
    /// Returns the headers of the response: the ones written here, and `own`, which must contain none of their names
    /// except the content type.
    pub fn headers(&self, own: HeaderMap) -> HeaderMap {
        let (sheet, fields) = if self.is_grpc { &*GRPC_SHEET } else { &*SHEET };
        let Some(windows) = &self.windows else {
            let mut headers = plain(self.id, self.hit, self.is_json, own);
            headers.insert(COMPUTE_UNITS, number(self.units));
            return headers;
        };
        let numbers = rates(windows);
        let mut texts = Texts::of(self.id, &numbers);
        let mut headers = sheet.clone();
        let mut content_type = None;
        let mut others = None;
        let mut last = None;
        for (name, value) in own {
            // The iterator returns a repeated name only once.
            if name.is_some() {
                last = name;
            }
            match &last {
                Some(name) if *name == CONTENT_TYPE => content_type = Some(value),
                Some(name) => others.get_or_insert_with(Vec::new).push((name.clone(), value)),
                None => {}
            }
        }
        let is_typed = self.is_json || content_type.is_some();
        // HPACK adds every value to the table of its connection unless it is "never indexed" (RFC 7541, section 6.2.3).
        // Values that are new in each answer would evict those that repeat, and would slow down each later comparison.
        let is_literal = self.is_grpc;
        LIMITS.with_borrow_mut(|limits| {
            for (field, value) in fields.iter().zip(headers.values_mut()) {
                match field {
                    Field::Same => {}
                    Field::Id => {
                        *value = texts.id();
                        value.set_sensitive(is_literal);
                    }
                    Field::Units => *value = number(self.units),
                    Field::Cache => *value = cache_value(self.hit),
                    Field::ContentType => {
                        if let Some(content_type) = content_type.take() {
                            *value = content_type;
                        }
                    }
                    Field::Rate(index) => {
                        let Some(n) = numbers.get(*index) else { continue };
                        *value = match limits.get_mut(*index) {
                            Some(limit) if is_limit(*index) => limit.value(*n),
                            _ => texts.number(*index).unwrap_or_else(|| number(*n)),
                        };
                        value.set_sensitive(is_literal && !is_limit(*index));
                    }
                }
            }
        });
        if !is_typed {
            headers.remove(CONTENT_TYPE);
        }
        for (name, value) in others.into_iter().flatten() {
            headers.append(name, value);
        }
        headers
    }
}

/// Returns the headers of any response: `own`, and the ones that do not depend on a caller.
pub fn plain(id: RequestId, hit: bool, is_json: bool, own: HeaderMap) -> HeaderMap {
    let mut headers = own;
    headers.reserve(8);
    if is_json {
        headers.insert(CONTENT_TYPE, JSON);
    }
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.insert(REQUEST_ID, id_value(id));
    headers.insert(CACHE, cache_value(hit));
    headers
}

fn id_value(id: RequestId) -> HeaderValue {
    HeaderValue::from_bytes(&id.text()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

fn cache_value(hit: bool) -> HeaderValue {
    HeaderValue::from_static(if hit { "HIT" } else { "MISS" })
}

/// The texts that are unique to one response, in one allocation: the request id, and large numbers of remaining
/// requests.
struct Texts {
    all: Bytes,
    id: usize,
    numbers: [(u8, u8); NUMBERS],
}

/// The number of rate headers.
const NUMBERS: usize = 9;
/// The maximum number of digits of a `u64`.
const LONGEST: usize = 20;

/// Reports whether this header is a limit. Limits repeat in many responses; remaining numbers do not.
const fn is_limit(index: usize) -> bool {
    index.is_multiple_of(2) && index < NUMBERS - 1
}

impl Texts {
    fn of(id: RequestId, numbers: &[u64; NUMBERS]) -> Self {
        let id = id.text();
        let mut all: SmallVec<[u8; 128]> = SmallVec::from_slice(&id);
        let mut ranges = [(0, 0); NUMBERS];
        for (index, (number, range)) in numbers.iter().zip(&mut ranges).enumerate() {
            if *number >= COMMON && !is_limit(index) {
                let mut text = [b'0'; LONGEST];
                let digits = digits(*number, &mut text);
                *range = (all.len() as u8, (all.len() + digits.len()) as u8);
                all.extend_from_slice(digits);
            }
        }
        Texts { all: Bytes::copy_from_slice(&all), id: id.len(), numbers: ranges }
    }

    fn id(&mut self) -> HeaderValue {
        // A single text takes the whole allocation, because sharing it would allocate again.
        let is_alone = self.all.len() == self.id;
        value(if is_alone { std::mem::take(&mut self.all) } else { self.all.slice(..self.id) })
    }

    /// Returns `None` if the number is not in this allocation.
    fn number(&self, index: usize) -> Option<HeaderValue> {
        let (start, end) = *self.numbers.get(index)?;
        (start < end).then(|| value(self.all.slice(usize::from(start)..end.into())))
    }
}

fn value(text: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The last number written into a header.
struct Memory(Option<(u64, HeaderValue)>);

impl Memory {
    fn value(&mut self, number: u64) -> HeaderValue {
        if number < COMMON {
            return self::number(number);
        }
        match &self.0 {
            Some((known, value)) if *known == number => value.clone(),
            _ => self.0.insert((number, large(number))).1.clone(),
        }
    }
}

thread_local! {
    static LIMITS: RefCell<[Memory; NUMBERS]> = const { RefCell::new([const { Memory(None) }; NUMBERS]) };
}

/// Numbers below it have a static text.
const COMMON: u64 = 10_000;
const DIGITS: usize = 4;

static TEXTS: [u8; COMMON as usize * DIGITS] = {
    let mut texts = [0; COMMON as usize * DIGITS];
    let mut number = 0;
    while number < COMMON as usize {
        let mut left = number;
        let mut digit = DIGITS;
        while digit > 0 {
            digit -= 1;
            texts[number * DIGITS + digit] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        number += 1;
    }
    texts
};

/// Returns a number as a header value. Below [`COMMON`] it does not allocate.
pub(crate) fn number(number: u64) -> HeaderValue {
    let leading = match number {
        0..10 => 3,
        10..100 => 2,
        100..1_000 => 1,
        1_000..COMMON => 0,
        _ => return large(number),
    };
    let end = (number as usize + 1) * DIGITS;
    let text = TEXTS.get(end - DIGITS + leading..end).unwrap_or_default();
    HeaderValue::from_maybe_shared(Bytes::from_static(text)).unwrap_or_else(|_| large(number))
}

/// Returns the text of a number, in an allocation of exactly its length.
fn large(number: u64) -> HeaderValue {
    let mut text = [b'0'; LONGEST];
    HeaderValue::from_bytes(digits(number, &mut text)).unwrap_or_else(|_| HeaderValue::from(number))
}

/// Writes the digits of a number to the end of `text`, which must be all zeros.
fn digits(number: u64, text: &mut [u8; LONGEST]) -> &[u8] {
    let mut left = number;
    let mut at = text.len();
    while left > 0 {
        at -= DIGITS;
        let four = (left % COMMON) as usize * DIGITS;
        text[at..at + DIGITS].copy_from_slice(&TEXTS[four..four + DIGITS]);
        left /= COMMON;
    }
    while at < text.len() - 1 && text[at] == b'0' {
        at += 1;
    }
    &text[at..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::write_rates;
    use rpcgate_core::clock::Time;
    use rpcgate_core::plan::{Plan, Tier};

    #[test]
    fn numbers_are_written_without_leading_zeros() {
        for n in (0..20_000).chain([u64::MAX]) {
            assert_eq!(number(n).to_str().unwrap(), n.to_string());
        }
    }

    #[test]
    fn a_metered_answer_has_its_own_headers_and_the_fifteen() {
        let plan = Plan::of(Tier::Enterprise);
        for (used, hit) in [(0, false), (1, true), (2, true), (400_000, false), (1, false)] {
            let windows = Windows::of(&plan, [used.min(900), used.min(40_000), used], Time::from_secs(70));
            let id = RequestId::new(Time::from_secs(70));
            let mut own = HeaderMap::new();
            own.insert(CONTENT_TYPE, HeaderValue::from_static("a/b"));
            own.append("x-node", HeaderValue::from_static("1"));
            own.append("x-node", HeaderValue::from_static("2"));
            let headers =
                Metered { id, windows: Some(windows), units: 75, hit, is_json: false, is_grpc: false }
                    .headers(own);
            let mut expected = HeaderMap::new();
            write_rates(&windows, &mut expected);
            for (name, value) in &expected {
                assert_eq!(headers.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
            }
            assert_eq!(headers[REQUEST_ID], id.to_string());
            assert_eq!(headers[COMPUTE_UNITS], "75");
            assert_eq!(headers[CACHE], if hit { "HIT" } else { "MISS" });
            assert_eq!(headers[CONTENT_TYPE], "a/b");
            assert_eq!(headers.get_all("x-node").iter().collect::<Vec<_>>(), ["1", "2"]);
            assert_eq!(headers.len(), 17);
        }
    }

    #[test]
    fn the_answer_to_a_grpc_call_has_no_cors_and_what_is_new_in_it_is_not_indexed() {
        let id = RequestId::new(Time::from_secs(70));
        let windows = Some(Windows::of(&Plan::of(Tier::Enterprise), [1; 3], Time::from_secs(70)));
        let answers = Metered { id, windows, units: 75, hit: false, is_json: false, is_grpc: true };
        let headers = answers.headers(HeaderMap::new());
        assert_eq!(headers.len(), 12);
        assert!(!headers.keys().any(|name| name.as_str().starts_with("access-control-")));
        let mut literal: Vec<&str> =
            headers.iter().filter(|(_, value)| value.is_sensitive()).map(|(name, _)| name.as_str()).collect();
        literal.sort_unstable();
        let remaining = ["day", "hour", "minute"].map(|window| format!("x-ratelimit-remaining-{window}"));
        let mut expected = vec!["ratelimit-remaining", "ratelimit-reset", "x-request-id"];
        expected.extend(remaining.iter().map(String::as_str));
        expected.sort_unstable();
        assert_eq!(literal, expected);
    }

    #[test]
    fn an_answer_without_a_body_has_no_type_and_one_without_rates_has_none() {
        let id = RequestId::new(Time::from_secs(70));
        let windows = Windows::of(&Plan::of(Tier::Free), [0; 3], Time::from_secs(70));
        let headers =
            Metered { id, windows: Some(windows), units: 0, hit: false, is_json: false, is_grpc: false }
                .headers(HeaderMap::new());
        assert_eq!((headers.len(), headers.contains_key(CONTENT_TYPE)), (14, false));
        let mut own = HeaderMap::new();
        own.insert(CONTENT_TYPE, HeaderValue::from_static("a/b"));
        let headers =
            Metered { id, windows: None, units: 0, hit: false, is_json: false, is_grpc: false }.headers(own);
        assert_eq!((headers.len(), headers.contains_key(&RATE[0])), (6, false));
    }
}
