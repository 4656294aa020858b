//! The ids of segments and gateways.

use crate::caller::{NotUuid, RequestId};
use crate::clock::Time;
use std::fmt;
use std::str::FromStr;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u128);

        impl $name {
            /// Creates a UUID of version 7 at `now`.
            pub fn new(now: Time) -> Self {
                $name(RequestId::new(now).0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&RequestId(self.0), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = NotUuid;

            fn from_str(s: &str) -> Result<Self, NotUuid> {
                s.parse().map(|RequestId(id)| $name(id))
            }
        }
    };
}

id! {
    /// The id of a segment, a UUID of version 7. Ids sort by opening time, to the millisecond.
    SegmentId
}
id! {
    /// The id of a gateway, a UUID that stays with its journal folder.
    GatewayId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_and_read_as_uuids_and_sort_by_time() {
        let older = SegmentId::new(Time::from_millis(0x0190_163d_8694));
        let newer = SegmentId::new(Time::from_millis(0x0190_163d_8695));
        assert!(older < newer);
        assert!(older.to_string().starts_with("0190163d-8694-7"), "{older}");
        assert_eq!(older.to_string().parse(), Ok(older));
        assert_eq!("gateway".parse::<GatewayId>(), Err(NotUuid));
    }
}
