//! The template filters for times, numbers, money and identifiers. A template uses them as `{{ at|time }}`; its module
//! imports this one.

#![allow(unreachable_pub, reason = "the macro that declares a filter writes such items")]

use super::assets;
use askama::filters::Safe;
use askama::{Error, Result, Values};
use rpcgate_core::clock::Time;
use rpcgate_core::usage::Amount;
use rpcgate_management::shape::moment::{Moment, parts};
pub(crate) use rpcgate_management::shape::moment::{day_text, minute_text};

pub(crate) trait Dated {
    fn at(&self) -> Time;
}

impl Dated for Time {
    fn at(&self) -> Time {
        *self
    }
}

impl Dated for Moment {
    fn at(&self) -> Time {
        self.0
    }
}

impl<T: Dated> Dated for &T {
    fn at(&self) -> Time {
        (**self).at()
    }
}

pub(crate) trait Counted {
    fn count(&self) -> u128;
}

macro_rules! counted {
    ($($number:ty)*) => {$(
        impl Counted for $number {
            fn count(&self) -> u128 {
                *self as u128
            }
        }
    )*};
}

counted!(u8 u16 u32 u64 u128 usize);

impl<T: Counted> Counted for &T {
    fn count(&self) -> u128 {
        (**self).count()
    }
}

pub(crate) trait Priced {
    fn amount(&self) -> Amount;
}

impl Priced for Amount {
    fn amount(&self) -> Amount {
        *self
    }
}

impl<T: Priced> Priced for &T {
    fn amount(&self) -> Amount {
        (**self).amount()
    }
}

/// Formats a number with its digits in groups of three.
pub(crate) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats an exact amount in US dollars, with at least two and at most twelve decimals.
pub(crate) fn dollars(amount: Amount) -> String {
    let text = amount.to_string();
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let used = decimals.trim_end_matches('0').len().max(2).min(decimals.len());
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    format!("{whole}.{}", &decimals[..used])
}

/// Returns the address of a static file, below the root of the pages: `{{ frame.root }}{{ "app.css"|asset }}`.
#[askama::filter_fn]
pub(crate) fn asset(name: impl AsRef<str>, _: &dyn Values) -> Result<&'static str> {
    assets::address(name.as_ref()).ok_or(Error::Fmt)
}

/// Writes `19 Nov 2026, 14:26 UTC` in an element that a script completes with the reader's time zone.
#[askama::filter_fn]
pub(crate) fn time(at: impl Dated, _: &dyn Values) -> Result<Safe<String>> {
    let (moment, day, clock) = parts(at.at());
    let minute = clock.get(..5).unwrap_or_default();
    Ok(Safe(format!("<time datetime=\"{moment}\">{day}, {minute} UTC</time>")))
}

/// Writes `14:26:25`, with the day in an attribute, for a time in a list of a single day.
#[askama::filter_fn]
pub(crate) fn clock(at: impl Dated, _: &dyn Values) -> Result<Safe<String>> {
    let (moment, _, clock) = parts(at.at());
    Ok(Safe(format!("<time datetime=\"{moment}\">{clock}</time>")))
}

/// Writes `19 Nov 2026`, in UTC.
#[askama::filter_fn]
pub(crate) fn day(at: impl Dated, _: &dyn Values) -> Result<Safe<String>> {
    let (moment, day, _) = parts(at.at());
    Ok(Safe(format!("<time datetime=\"{}\">{day}</time>", moment.get(..10).unwrap_or_default())))
}

/// Writes `245,372`.
#[askama::filter_fn]
pub(crate) fn number(count: impl Counted, _: &dyn Values) -> Result<String> {
    Ok(grouped(count.count()))
}

/// Writes an exact amount: `$3,571.18`, with more decimals if it has more.
#[askama::filter_fn]
pub(crate) fn money(amount: impl Priced, _: &dyn Values) -> Result<String> {
    Ok(format!("${}", dollars(amount.amount())))
}

/// Writes an amount in cents: `$3,571.18`.
#[askama::filter_fn]
pub(crate) fn cents(cents: impl Counted, _: &dyn Values) -> Result<String> {
    let cents = cents.count();
    Ok(format!("${}.{:02}", grouped(cents / 100), cents % 100))
}

/// Writes bytes as `18 kB`, `2.4 MB`.
#[askama::filter_fn]
pub(crate) fn bytes(count: impl Counted, _: &dyn Values) -> Result<String> {
    let count = count.count();
    let scaled = |unit: u128, name: &str| {
        let tenths = (count * 10 + unit / 2) / unit;
        let whole = tenths / 10;
        let rest = tenths % 10;
        if whole >= 10 || rest == 0 { format!("{whole} {name}") } else { format!("{whole}.{rest} {name}") }
    };
    Ok(match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => scaled(1_000, "kB"),
        1_000_000..1_000_000_000 => scaled(1_000_000, "MB"),
        _ => scaled(1_000_000_000, "GB"),
    })
}

/// Shortens a long identifier or hash: `0x4fa1c2…`. Short ones stay whole.
#[askama::filter_fn]
pub(crate) fn short(text: impl std::fmt::Display, _: &dyn Values) -> Result<String> {
    const SHOWN: usize = 12;
    let text = text.to_string();
    Ok(match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    })
}
