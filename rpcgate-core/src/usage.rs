//! Usage: from the journal's records to the answer of `GET /usage`. This module knows no SQL and reads no clock.
//!
//! A shipper passes each event to a [`HourlyFold`], which sums by the hour, and to [`Blocks`], which keep single events. Both
//! go as a [`Shipment`] to a usage store, which accepts it as a whole or not at all.
//!
//! ```
//! use rpcgate_core::usage::{Blocks, HourlyFold};
//! use rpcgate_core::journal::{Reader, FrameError};
//!
//! fn read(mut frames: &[u8], fold: &mut HourlyFold, blocks: &mut Blocks) -> Result<(), FrameError> {
//!     let mut reader = Reader::new();
//!     while let Some((length, event)) = reader.frame(frames)? {
//!         fold.add(&reader, &event);
//!         blocks.add(&reader, &event);
//!         frames = &frames[length..];
//!     }
//!     Ok(())
//! }
//! # assert!(read(&[], &mut HourlyFold::new(), &mut Blocks::new()).is_ok());
//! ```

pub mod ask;
pub mod block;
pub mod bound;
pub mod charge;
mod delta;
pub mod fold;
mod interned;
pub mod method;
pub mod metrics;
pub mod notice;
pub mod rollup;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod shipment;
pub mod view;
pub mod window;

pub use ask::{AskError, Group, Params, UsageAsk, UsageFilter};
pub use block::{Block, BlockKey, Blocks};
pub use charge::{Amount, Charge, Charged};
pub use fold::{HourlyFold, HourlySums};
pub use metrics::Metrics;
pub use notice::Notice;
pub use rollup::{Rollup, Stream};
pub use shipment::{Mark, Shipment};
pub use view::{Cell, UsageRow, UsageView};
pub use window::{Period, UsageWindow, WindowError};
