//! Values of this crate as columns of a database, with the feature `sql`: the traits of sea-orm. Rust lets only
//! this crate implement them for its types.

use crate::caller::{CustomPlanId, KeyId, ProjectId, RequestId, TenantId};
use crate::clock::Time;
use crate::plan::Tier;

/// Implements sea-orm's traits for a type that is stored as another one. `$from` returns `None` for a stored value
/// that cannot be converted; `$what` names the type in the error.
#[doc(hidden)]
#[macro_export]
macro_rules! sql_value {
    ($type:ty, $what:literal, $stored:ty, $to:expr, $from:expr) => {
        impl From<$type> for sea_orm::Value {
            fn from(value: $type) -> Self {
                let to: fn($type) -> $stored = $to;
                to(value).into()
            }
        }

        impl sea_orm::TryGetable for $type {
            fn try_get_by<I: sea_orm::ColIdx>(
                row: &sea_orm::QueryResult,
                column: I,
            ) -> Result<Self, sea_orm::TryGetError> {
                let stored = <$stored as sea_orm::TryGetable>::try_get_by(row, column)?;
                let from: fn(&$stored) -> Option<$type> = $from;
                from(&stored).ok_or_else(|| {
                    let source = Box::<dyn std::error::Error + Send + Sync>::from(stored.to_string());
                    sea_orm::DbErr::TryIntoErr { from: "column", into: $what, source: source.into() }.into()
                })
            }
        }

        impl sea_orm::sea_query::ValueType for $type {
            fn try_from(value: sea_orm::Value) -> Result<Self, sea_orm::sea_query::ValueTypeErr> {
                let stored = <$stored as sea_orm::sea_query::ValueType>::try_from(value)?;
                let from: fn(&$stored) -> Option<$type> = $from;
                from(&stored).ok_or(sea_orm::sea_query::ValueTypeErr)
            }

            fn type_name() -> String {
                stringify!($type).to_owned()
            }

            fn array_type() -> sea_orm::sea_query::ArrayType {
                <$stored as sea_orm::sea_query::ValueType>::array_type()
            }

            fn column_type() -> sea_orm::sea_query::ColumnType {
                <$stored as sea_orm::sea_query::ValueType>::column_type()
            }
        }

        impl sea_orm::sea_query::Nullable for $type {
            fn null() -> sea_orm::Value {
                <$stored as sea_orm::sea_query::Nullable>::null()
            }
        }

        impl sea_orm::IntoActiveValue<$type> for $type {
            fn into_active_value(self) -> sea_orm::ActiveValue<$type> {
                sea_orm::ActiveValue::Set(self)
            }
        }

        impl sea_orm::TryFromU64 for $type {
            fn try_from_u64(_: u64) -> Result<Self, sea_orm::DbErr> {
                Err(sea_orm::DbErr::ConvertFromU64(stringify!($type)))
            }
        }
    };
}

/// Makes types that wrap a `u128` columns of UUIDs.
#[doc(hidden)]
#[macro_export]
macro_rules! sql_ids {
    ($($type:ident),* $(,)?) => {
        $($crate::sql_value!(
            $type, "id", sea_orm::prelude::Uuid,
            |id| sea_orm::prelude::Uuid::from_u128(id.0),
            |stored| Some($type(stored.as_u128()))
        );)*
    };
}

/// Makes a type that is `FromStr` a column of texts. `$name` returns a value's text, `$what` names the type in errors.
#[doc(hidden)]
#[macro_export]
macro_rules! sql_name {
    ($type:ty, $what:literal, $name:expr) => {
        $crate::sql_value!($type, $what, String, |value| $name(value).into(), |stored| stored.parse().ok());
    };
}

sql_ids! { CustomPlanId, KeyId, ProjectId, RequestId, TenantId }
sql_name! { Tier, "tier", Tier::name }
#[cfg(feature = "usage")]
sql_name! { crate::usage::Notice, "notification", crate::usage::Notice::name }
#[cfg(feature = "events")]
sql_name! { crate::event::EventType, "event type", crate::event::EventType::name }

// Times beyond the year 294247 become the latest that a column can hold.
sql_value! {
    Time, "time", i64,
    |time| i64::try_from(time.micros()).unwrap_or(i64::MAX),
    |stored| Some(Time::from_micros((*stored).max(0).unsigned_abs()))
}
