//! The figures of plans, listed once: [`plan_figures!`](crate::plan_figures).

/// Passes the list of the figures of plans to another macro. [`Plan`](crate::plan::Plan),
/// [`PlanChange`](crate::plan::PlanChange), the configuration, the database rows, the API's JSON, the options of
/// commands and the fields of pages are derived from it, so a new figure needs one entry here and a migration.
///
/// An entry has the name in every interface, and, if it differs, the name of the database column: a gateway of an
/// earlier version could not read its plans if a column were renamed. They are followed by
///
/// - `core`: the path in `Plan` (`plan`), or the field of `PlanChange` alone (`fee`), the type in `Plan`, the type of a
///   changed value, and the default of each tier, unless it has its default elsewhere,
/// - `shown`: the attributes and the type of the field in the API's plans,
/// - `changed`: the attributes and the type of the field in the API's changes,
/// - `option`: the help and the attributes of the option of commands,
/// - `facts`: the fields of [`PlanFigure`](crate::plan::PlanFigure).
///
/// The text before an entry is part of the first three.
///
/// ```
/// macro_rules! names {
///     ($($section:ident { $($(#[$text:meta])* $name:ident $(= $column:literal)? { $($entry:tt)* })* })*) => {
///         [$($(stringify!($name),)*)*]
///     };
/// }
/// let names = rpcgate_core::plan_figures!(names);
/// assert_eq!(names, rpcgate_core::plan::PlanFigure::NAMES);
/// ```
#[macro_export]
macro_rules! plan_figures {
    ($then:ident) => {
        $then! {
            limits {
                /// Requests a key may make per UTC minute.
                per_minute {
                    core { plan [per_minute] [u64] u64 = [10, 50, 100, 1_000] }
                    shown { [u64] }
                    changed { #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)] u64 }
                    option { "Requests a key may make in a UTC minute" }
                    facts { Number 1..=MAX_LIMIT, "requests per minute", "Requests a minute",
                        "the requests a minute", [1 "Requests a minute, each key"] }
                }
                /// Requests a key may make per UTC hour.
                per_hour {
                    core { plan [per_hour] [u64] u64 = [500, 2_500, 5_000, 50_000] }
                    shown { [u64] }
                    changed { #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)] u64 }
                    option { "Requests a key may make in a UTC hour" }
                    facts { Number 1..=MAX_LIMIT, "requests per hour", "Requests an hour",
                        "the requests an hour", [2 "Requests an hour, each key"] }
                }
                /// Requests a key may make per UTC day.
                per_day {
                    core { plan [per_day] [u64] u64 = [10_000, 50_000, 100_000, 1_000_000] }
                    shown { [u64] }
                    changed { #[schema(minimum = 1, maximum = 1_000_000_000_000_u64)] u64 }
                    option { "Requests a key may make in a UTC day" }
                    facts { Number 1..=MAX_LIMIT, "requests per day", "Requests a day",
                        "the requests a day", [3 "Requests a day, each key"] }
                }
                /// Heavy calls a project may make per UTC minute, at each gateway.
                heavy_per_minute {
                    core { plan [heavy_per_minute] [u64] u64 = [6, 30, 60, 600] }
                    shown { [u64] }
                    changed { #[schema(maximum = 1_000_000_000_000_u64)] u64 }
                    option { "Heavy calls a project may make in a UTC minute, at each gateway" }
                    facts { Number 0..=MAX_LIMIT, "heavy calls per minute", "Heavy calls a minute",
                        "the heavy calls a minute", [4 "Heavy calls a minute, each project"] }
                }
                /// Price of a Compute Unit in US dollars.
                price_per_cu = "price" {
                    core { plan [price] [Price] Price =
                        [Price(0), Price(1_000_000_000), Price(500_000_000), Price(200_000_000)] }
                    shown { #[schema(example = 0.001)] [f64] }
                    changed { #[schema(minimum = 0, maximum = 1000)] f64 }
                    option { "Price of a Compute Unit in US dollars"
                        #[arg(value_name = "DOLLARS", value_parser = price_of)] }
                    facts { Price 0..=MAX_PRICE, "US dollars per CU", "Price of a CU in US dollars",
                        "the price of a CU", [13 "Price of a Compute Unit"] }
                }
                /// WebSocket streams a project may have open at each gateway.
                ws_connections = "streams_per_project" {
                    core { plan [ws_connections] [u32] u32 = [5, 50, 200, 2_000] }
                    shown { [u32] }
                    changed {
                        /// Open ones beyond the limit stay.
                        #[schema(maximum = 1_000_000)] u32
                    }
                    option { "WebSocket streams a project may have open, at each gateway" }
                    facts { Number 0..=MAX_COUNT, "streams per project", "Streams of a project",
                        "the number of streams of a project", [6 "Open streams, each project"] }
                }
                /// WebSocket streams a key may have open at each gateway.
                ws_connections_per_key {
                    core { plan [ws_connections_per_key] [u32] u32 = [5, 50, 200, 2_000] }
                    shown { [u32] }
                    changed {
                        /// The default and the maximum are the project's limit. Open ones beyond the limit stay.
                        #[schema(maximum = 1_000_000)] u32
                    }
                    option { "WebSocket streams a key may have open, at each gateway" }
                    facts { Number 0..=MAX_COUNT, "streams per key", "Streams of a key",
                        "the number of streams of a key", [7 "Open streams, each key"] }
                }
            }
            counts {
                /// The maximum number of projects of a tenant.
                projects {
                    core { plan [counts.projects] [u32] u32 = [3, 20, 100, 1_000] }
                    shown { [u32] }
                    changed {
                        /// Existing ones beyond the limit stay.
                        #[schema(maximum = 1_000_000)] u32
                    }
                    option { "Projects of a tenant" }
                    facts { Number 0..=MAX_COUNT, "projects", "Projects", "the number of projects", [8 "Projects"] }
                }
                /// The maximum number of usable keys of a project.
                keys_per_project {
                    core { plan [counts.keys_per_project] [u32] u32 = [10, 50, 200, 1_000] }
                    shown { [u32] }
                    changed {
                        /// Existing ones beyond the limit stay.
                        #[schema(maximum = 1_000_000)] u32
                    }
                    option { "Usable keys of a project" }
                    facts { Number 0..=MAX_COUNT, "keys per project", "Keys of a project",
                        "the number of keys of a project", [9 "API keys, each project"] }
                }
                /// The maximum number of members of a tenant.
                members {
                    core { plan [counts.members] [u32] u32 = [3, 20, 100, 1_000] }
                    shown { [u32] }
                    changed {
                        /// Existing ones beyond the limit stay.
                        #[schema(maximum = 1_000_000)] u32
                    }
                    option { "Members of a tenant" }
                    facts { Number 0..=MAX_COUNT, "members", "Members", "the number of members", [12 "Members"] }
                }
                /// The maximum number of webhooks of a project.
                webhooks_per_project {
                    core { plan [counts.webhooks_per_project] [u32] u32 = [2, 10, 50, 200] }
                    shown { [u32] }
                    changed {
                        /// Existing ones beyond the limit stay.
                        #[schema(maximum = 1_000_000)] u32
                    }
                    option { "Webhooks of a project" }
                    facts { Number 0..=MAX_COUNT, "webhooks per project", "Webhooks of a project",
                        "the number of webhooks of a project", [10 "Webhooks, each project"] }
                }
                /// The maximum number of subscriptions of a webhook.
                subscriptions_per_webhook {
                    core { plan [counts.subscriptions_per_webhook] [u32] u32 = [20, 100, 500, 5_000] }
                    shown { [u32] }
                    changed {
                        /// Existing ones beyond the limit stay.
                        #[schema(maximum = 1_000_000)] u32
                    }
                    option { "Subscriptions of a webhook" }
                    facts { Number 0..=MAX_COUNT, "subscriptions per webhook", "Subscriptions of a webhook",
                        "the number of subscriptions of a webhook", [11 "Subscriptions, each webhook"] }
                }
            }
            quota {
                cu_per_day {
                    core { plan [quota.cu_per_day] [u64] u64 }
                    shown {
                        /// Compute Units that a project may use in any rolling 24 hours, unless it has a quota of its
                        /// own.
                        [u64]
                    }
                    changed {
                        /// Compute Units that a project may use in any rolling 24 hours, unless it has a quota of its
                        /// own; 0 refuses every call that costs units. This field and those below apply only to the
                        /// four built-in plans.
                        #[schema(maximum = 9_223_372_036_854_775_807_u64)] u64
                    }
                    option { "Compute Units of a project in any 24 hours; 0 refuses every call that costs units" }
                    facts { Number 0..=u64::MAX, "cu per day", "Quota: CU in 24 hours",
                        "the quota of CU in 24 hours", [5 "Compute Units in 24 hours, each project"] }
                }
                cu_per_month {
                    core { plan [quota.cu_per_month] [Option<u64>] u64 }
                    shown {
                        /// Compute Units of a project in a month, or null. Recorded, not enforced.
                        [Option<u64>]
                    }
                    changed {
                        /// Compute Units of a project in a month. Recorded, not enforced.
                        #[schema(maximum = 9_223_372_036_854_775_807_u64)] u64
                    }
                    option { "Compute Units of a project in a month; recorded, not enforced" }
                    facts { Number 0..=u64::MAX, "cu per month", "CU a month", "the CU a month", [] }
                }
                rps_limit {
                    core { plan [quota.rps_limit] [Option<u64>] u64 }
                    shown {
                        /// Requests per second over all keys of a project that has no quota of its own, or null.
                        [Option<u64>]
                    }
                    changed {
                        /// Requests per second over all keys of a project that has no quota of its own.
                        #[schema(maximum = 9_223_372_036_854_775_807_u64)] u64
                    }
                    option { "Requests per second over all keys of a project" }
                    facts { Number 1..=u64::MAX, "requests per second", "Requests a second of a project",
                        "the requests a second of a project", [] }
                }
            }
            fee {
                /// The fee per month, in cents.
                monthly_fee_cents {
                    core { fee [monthly_fee] [u64] u64 }
                    shown { [u64] }
                    changed { #[schema(maximum = 100_000_000)] u64 }
                    option { "The fee for a month, in cents" #[arg(value_name = "CENTS")] }
                    facts { Cents 0..=MAX_FEE, "monthly fee in cents", "Monthly fee in cents",
                        "the monthly fee", [14 "Fee a month"] }
                }
            }
        }
    };
}
