//! Printable documents: invoices in HTML without the frame of the pages. The API answers with them, and pages embed
//! their sheets.

pub mod printed;
pub mod sheet;
