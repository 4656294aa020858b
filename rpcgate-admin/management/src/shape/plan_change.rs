//! JSON shape of a change to a plan.

use crate::action::operator::plans::price;
use crate::error::ActionError;
use crate::shape::moment::Moment;
use rpcgate_config::PlanChange;
use rpcgate_core::plan::Price;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A figure in JSON.
pub(crate) trait FigureJson: Copy {
    fn of(number: Option<u64>) -> Self;

    /// Returns the figure as a number, if it is given.
    ///
    /// # Errors
    /// [`ActionError::Invalid`] for an invalid price.
    fn number(self) -> Result<Option<u64>, ActionError>;
}

impl FigureJson for u64 {
    fn of(number: Option<u64>) -> Self {
        number.unwrap_or_default()
    }

    fn number(self) -> Result<Option<u64>, ActionError> {
        Ok(Some(self))
    }
}

impl FigureJson for u32 {
    fn of(number: Option<u64>) -> Self {
        number.and_then(|number| number.try_into().ok()).unwrap_or_default()
    }

    fn number(self) -> Result<Option<u64>, ActionError> {
        Ok(Some(self.into()))
    }
}

/// A price in US dollars.
impl FigureJson for f64 {
    fn of(number: Option<u64>) -> Self {
        Price(number.unwrap_or_default()).usd()
    }

    fn number(self) -> Result<Option<u64>, ActionError> {
        Ok(Some(price(self)?.0))
    }
}

impl<T: FigureJson> FigureJson for Option<T> {
    fn of(number: Option<u64>) -> Self {
        number.is_some().then(|| T::of(number))
    }

    fn number(self) -> Result<Option<u64>, ActionError> {
        self.map_or(Ok(None), T::number)
    }
}

macro_rules! changed {
    ($($section:ident { $(
        $(#[$text:meta])* $name:ident $(= $column:literal)? {
            core $core:tt shown $shown:tt changed { $(#[$meta:meta])* $type:ident } $($rest:tt)*
        }
    )* })*) => {
        /// A change to a plan. Fields that are left out stay as they are.
        #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = PlanChange)]
        pub struct PlanChangeJson {
            $($(
                $(#[$text])*
                $(#[$meta])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $name: Option<$type>,
            )*)*
            /// The time at which the change takes effect, at most 366 days ahead; now by default. A time in the past is
            /// refused. Only for a built-in plan.
            #[schema(value_type = Option<String>, format = DateTime)]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub from: Option<Moment>,
        }

        impl PlanChangeJson {
            /// Reports whether all fields are left out.
            pub fn is_empty(&self) -> bool {
                *self == PlanChangeJson::default()
            }

            /// Returns the change.
            ///
            /// # Errors
            /// [`ActionError::Invalid`] for an invalid price.
            pub fn change(self) -> Result<PlanChange, ActionError> {
                let mut change = PlanChange::default();
                $($(if let Some(number) = self.$name.number()? {
                    change.set(stringify!($name), number);
                })*)*
                Ok(change)
            }
        }

        impl From<PlanChange> for PlanChangeJson {
            fn from(change: PlanChange) -> Self {
                let [$($($name,)*)*] = change.values();
                PlanChangeJson { $($($name: FigureJson::of($name),)*)* from: None }
            }
        }
    };
}

rpcgate_core::plan_figures!(changed);
