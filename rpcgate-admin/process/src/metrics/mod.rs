//! The metrics that both binaries have, and what they write metrics with.

mod certificate;
mod format;
mod page;
mod program;

pub use certificate::CertificateMetrics;
pub use format::MetricsFormat;
pub use page::{Histogram, MetricsWriter};
pub use program::ProgramMetrics;
