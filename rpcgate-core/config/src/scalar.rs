//! Reading and writing of scalar values.

use super::masking::Masking;
use super::reading::Reading;
use super::toml_text::quote;
use super::tree::{Item, Value as RawValue};
use super::value::{Value, number};
use super::{duration, moment};
use ipnet::IpNet;
use rpcgate_core::cache_rule::CacheRule;
use rpcgate_core::caller::{KeyId, ProjectId, TenantId};
use rpcgate_core::chain::NodePrice;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Price;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

fn parsed<T: FromStr>(item: &Item, r: &mut Reading<'_>, expected: &str) -> Option<T> {
    item.text().and_then(|text| text.parse().ok()).or_else(|| r.unreadable(item, expected))
}

impl Value for bool {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        match &item.value {
            RawValue::Boolean(yes) => Some(*yes),
            RawValue::Text(text) => text.parse().ok().or_else(|| r.unreadable(item, "true or false")),
            _ => r.unreadable(item, "true or false"),
        }
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for u32 {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        number(item, r, 0..=u32::MAX)
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for u64 {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        // The largest TOML integer.
        number(item, r, 0..=i64::MAX as u64)
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(self.to_string())
    }
}

impl Value for String {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        item.text().map(str::to_owned).or_else(|| r.unreadable(item, "a text"))
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(quote(self))
    }
}

impl Value for PathBuf {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        let path = item.text().filter(|text| !text.is_empty());
        path.map(PathBuf::from).or_else(|| r.unreadable(item, "a path"))
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(quote(&self.to_string_lossy()))
    }
}

impl Value for SocketAddr {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        parsed(item, r, "an address with a port such as \"127.0.0.1:8080\"")
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

impl Value for IpNet {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        let one = item.text().and_then(|text| text.parse::<IpAddr>().ok());
        let network = one
            .map(IpNet::from)
            .or_else(|| parsed(item, r, "an address or a network such as \"10.0.0.0/8\""))?;
        match mapped_form(network) {
            Some(why) => r.invalid(item, format!("has {:?}, {why}", item.text().unwrap_or_default())),
            None => Some(network),
        }
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

/// Returns the reason to refuse a network like `::ffff:10.0.0.0/104`, as the end of a sentence. Dual-stack listeners
/// log that form, but addresses are compared as IPv4, so it would match no peer.
fn mapped_form(network: IpNet) -> Option<String> {
    const MAPPED_BITS: u8 = 96;
    let IpNet::V6(network) = network else { return None };
    let address = network.addr().to_ipv4_mapped()?;
    Some(match network.prefix_len().checked_sub(MAPPED_BITS) {
        Some(32) => format!("which is an IPv4 address in the form of IPv6: write \"{address}\""),
        Some(bits) => {
            format!("which is an IPv4 network in the form of IPv6: write \"{address}/{bits}\"")
        }
        None => format!(
            "which is not an IPv4 network: in the form of IPv6, the length of one is at least {MAPPED_BITS}"
        ),
    })
}

impl Value for Time {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        let text = match &item.value {
            RawValue::Moment(text) => Some(text.as_str()),
            _ => item.text(),
        };
        text.and_then(moment::parse).or_else(|| r.unreadable(item, moment::EXPECTED))
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(moment::text(*self))
    }
}

impl Value for Price {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        let usd = match &item.value {
            RawValue::Integer(number) => number.map(|n| n as f64),
            RawValue::Float(number) => Some(*number),
            RawValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        usd.and_then(Price::from_usd).or_else(|| r.unreadable(item, "a price in USD between 0 and 1000"))
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        // Debug always writes a fraction, and may write an exponent. Both are valid TOML.
        Some(format!("{:?}", self.usd()))
    }
}

impl Value for NodePrice {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        let units = match &item.value {
            RawValue::Integer(number) => number.map(|n| n as f64),
            RawValue::Float(number) => Some(*number),
            RawValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        let price = units.and_then(NodePrice::from_units);
        price.or_else(|| r.unreadable(item, "0, or a price between 0.000001 and 1000000000"))
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(format!("{:?}", self.units()))
    }
}

impl Value for CacheRule {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        const EXPECTED: &str = "a duration such as \"2s\", or \"never\", \"forever\" or \"immutable 2s\"";
        let rule = match &item.value {
            RawValue::Integer(_) => duration::read(item, r).map(CacheRule::Short),
            _ => item.text().and_then(|text| match text {
                "never" => Some(CacheRule::Never),
                "forever" => Some(CacheRule::Static),
                _ => match text.strip_prefix("immutable ") {
                    Some(time) => duration::parse(time).map(|unsettled| CacheRule::Immutable { unsettled }),
                    None => duration::parse(text).map(CacheRule::Short),
                },
            }),
        };
        match rule {
            Some(CacheRule::Short(Duration::ZERO)) => Some(CacheRule::Never),
            Some(rule) => Some(rule),
            None => r.unreadable(item, EXPECTED),
        }
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(quote(&match self {
            CacheRule::Never => "never".to_owned(),
            CacheRule::Static => "forever".to_owned(),
            CacheRule::Short(time) => duration::text(*time),
            CacheRule::Immutable { unsettled } => format!("immutable {}", duration::text(*unsettled)),
        }))
    }
}

impl Value for Duration {
    fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
        duration::read(item, r)
    }

    fn write(&self, _: &Masking<'_>) -> Option<String> {
        Some(quote(&duration::text(*self)))
    }
}

macro_rules! by_text {
    ($($type:ty: $expected:literal),+) => {
        $(impl Value for $type {
            fn read(item: &Item, r: &mut Reading<'_>) -> Option<Self> {
                parsed(item, r, $expected)
            }

            fn write(&self, _: &Masking<'_>) -> Option<String> {
                Some(quote(&self.to_string()))
            }
        })+
    };
}

by_text!(KeyId: "a UUID", ProjectId: "a UUID", TenantId: "a UUID");
