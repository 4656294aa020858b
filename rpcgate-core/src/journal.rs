//! The binary format of usage records, for a sink on disk and for readers.
//!
//! A *segment* is a [`SegmentHeader`] and one frame per record. The first frame with a caller, chain or method defines
//! it, and later frames refer to its number, so a segment is read from its start. Blocks of frames in a database have
//! the same format without a header.
//!
//! A frame is the payload length and the payload's CRC-32, each four bytes, little-endian, and the payload:
//! - a byte of phase (2 bits), transport (2 bits) and whether `windowed` follows (1 bit; otherwise it is 1),
//! - the request id, 16 bytes, big-endian,
//! - the caller and the chain, each a reference,
//! - arrival in microseconds since the Unix epoch, latency in microseconds, `windowed`,
//! - for each line up to the payload's end: a byte of outcome (3 bits), `cached` (1 bit), whether a status follows
//!   (otherwise it is 200) and whether `calls` follow (otherwise it is 1); the method, a reference; Compute Units;
//!   status; calls; bytes in; bytes out.
//!
//! Numbers are LEB128. A reference is 0 and an unnumbered definition, or the number of an earlier definition plus one,
//! or the next number plus one and its definition. A name is defined by its length and its bytes; a caller by key,
//! project, tenant (16 bytes each), a byte of its tier, and its price.
//!
//! ```
//! use rpcgate_core::journal::{Reader, Writer};
//! # use rpcgate_core::backend::usage_sink::{Line, Outcome, Phase, Record};
//! # use rpcgate_core::{caller::*, chain::ChainName, clock::Time, plan::*, tally::Transport};
//! # let lines = [Line { method: b"toy_read", cu: 5, status: 200, outcome: Outcome::Answered, cached: false,
//! #     calls: 1, bytes_in: 10, bytes_out: 20 }];
//! # let record = Record { phase: Phase::Complete, request: RequestId(7), key: KeyId(1), project: ProjectId(2),
//! #     tenant: TenantId(3), chain: ChainName::new("toy"), transport: Transport::Http, tier: Tier::Free,
//! #     price: Price(0), arrival: Time::from_secs(1), latency: std::time::Duration::ZERO, windowed: 1, lines: &lines };
//! let mut bytes = Vec::new();
//! Writer::new().frame(&record, &mut bytes);
//!
//! let mut reader = Reader::new();
//! let (length, event) = reader.frame(&bytes)?.ok_or("it was cut short")?;
//! assert_eq!((length, event.request), (bytes.len(), record.request));
//! assert_eq!(reader.chain(event.chain), Some("toy"));
//! for line in reader.lines() {
//!     assert_eq!(reader.method(line.method), Some(&b"toy_read"[..]));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod code;
mod frame;
mod head;
mod ids;
mod names;
mod reader;
#[cfg(test)]
mod tests;
mod varint;
mod writer;

pub use frame::{Event, EventLine, FrameError, MAX_NAME, MAX_PAYLOAD, Party, TABLE};
pub use head::{BadHead, HEAD, SegmentHeader};
pub use ids::{GatewayId, SegmentId};
pub use reader::Reader;
pub use writer::Writer;
