//! File names of segments.

use rpcgate_core::journal::SegmentId;

const SUFFIX: &str = ".segment";

pub(super) fn file_name(id: SegmentId) -> String {
    format!("{id}{SUFFIX}")
}

/// Parses a segment's file name.
pub(super) fn segment_of(name: &str) -> Option<SegmentId> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}
