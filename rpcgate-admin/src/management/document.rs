//! Printable documents: invoices in HTML without the frame of the pages. The API answers with them, and pages embed
//! their sheets.

pub(crate) mod printed;
pub(crate) mod sheet;
