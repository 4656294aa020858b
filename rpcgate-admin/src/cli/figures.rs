//! The figures of plans and contracts, as options.

use clap::Args;
use rpcgate_core::plan::{PlanChange, Price};
use rpcgate_management::action::operator::plans::price;

macro_rules! args {
    ($($section:ident { $(
        $(#[$text:meta])* $name:ident $(= $column:literal)? {
            core { $(plan $path:tt)? $(fee $fee:tt)? [$($type:tt)+] $given:ident $(= $default:expr)? }
            shown $shown:tt changed $changed:tt option { $help:literal $(#[$meta:meta])* } $($rest:tt)*
        }
    )* })*) => {
        /// Figures that replace those of a plan.
        #[derive(Clone, PartialEq, Eq, Debug, Args)]
        pub struct FigureArgs {
            $($(
                #[doc = $help]
                #[arg(long, value_name = "NUMBER")]
                $(#[$meta])*
                pub $name: Option<$given>,
            )*)*
        }

        impl FigureArgs {
            /// Returns the given figures.
            pub fn change(&self) -> PlanChange {
                let mut change = PlanChange::default();
                $($(if let Some(value) = self.$name {
                    change.set(stringify!($name), value.into());
                })*)*
                change
            }
        }
    };
}

rpcgate_core::plan_figures!(args);

/// The limits of a quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Args)]
pub struct QuotaArgs {
    /// Compute Units of a project in any 24 hours; 0 refuses every call that costs units
    #[arg(long, value_name = "NUMBER")]
    pub cu_per_day: Option<u64>,
    /// Compute Units of a project in a month; recorded, not enforced
    #[arg(long, value_name = "NUMBER")]
    pub cu_per_month: Option<u64>,
    /// Requests per second over all keys of a project
    #[arg(long, value_name = "NUMBER")]
    pub rps_limit: Option<u64>,
}

/// Parses a price in US dollars.
fn price_of(text: &str) -> Result<Price, String> {
    let usd = text.parse().map_err(|_| "not a number".to_owned())?;
    price(usd).map_err(|error| error.to_string())
}
