//! JSON shapes of usage, and usage as CSV.

mod csv_file;
mod project;
mod view;

pub use csv_file::{TRUNCATED, table};
pub use project::{
    CallMetrics, ChainUsage, ChartPoint, MethodMetrics, ProjectMetrics, ProjectUsage, UsageChart,
};
pub use view::{
    CooledLimits, CurrentPeriod, QuotaProject, Row, RunningWindow, Sums, UsageLimits, UsageSource, View,
};

use crate::shape::moment::Moment;
use rpcgate_core::clock::Time;

fn moment(time: Time) -> String {
    Moment(time).to_string()
}
