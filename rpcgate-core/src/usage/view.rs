//! The answer to a usage query.

use super::ask::Group;
use super::metrics::Metrics;
use super::rollup::Stream;
use super::window::Period;
use crate::caller::{KeyId, ProjectId, TenantId};
use crate::clock::Time;
use crate::transport::Transport;

/// The usage of one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageView {
    /// The tenant.
    pub tenant: TenantId,
    /// The project, if the query is limited to one.
    pub project: Option<ProjectId>,
    /// The first moment of the window, at the start of an hour.
    pub from: Time,
    /// The first moment after the window, at the end of an hour.
    pub to: Time,
    /// The name of the window; `None` if the query gave its ends.
    pub period: Option<Period>,
    /// The dimensions by which the rows are grouped.
    pub group_by: Vec<Group>,
    /// The sums of everything that the query matches, never truncated.
    pub totals: Metrics,
    /// The sums by group, sorted by cells. They add up to the totals, except for the bytes in [`Stream::Disconnect`].
    pub rows: Vec<UsageRow>,
    /// True if more rows match than the limit allows. Of rows by hour or day, the newest are kept.
    pub truncated: bool,
    /// The arrival of the oldest stored event of the tenant or the project.
    pub history_from: Option<Time>,
}

/// The sums of one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageRow {
    /// The common properties of the group: a cell for each name of `group_by`, in its order.
    pub cells: Vec<Cell>,
    /// The sums.
    pub metrics: Metrics,
}

impl UsageRow {
    /// Returns the part of the row that adds to the totals: all except the bytes of ended streams.
    pub fn counted(&self) -> Metrics {
        let is_end = self.cells.iter().any(|cell| matches!(cell, Cell::Method(_, Stream::Disconnect)));
        if is_end { Metrics { request_bytes: 0, response_bytes: 0, ..self.metrics } } else { self.metrics }
    }
}

/// One common property of a group.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Cell {
    /// The start of the UTC hour.
    Hour(Time),
    /// The start of the UTC day.
    Day(Time),
    /// The chain's path name.
    Chain(String),
    /// The method's name and kind. A client's method may have the name of a stream phase, which gives two rows.
    Method(String, Stream),
    /// The API key.
    Key(KeyId),
    /// The project.
    Project(ProjectId),
    /// The transport.
    Transport(Transport),
    /// The HTTP status.
    Status(u16),
}

impl Cell {
    /// Returns the dimension that it belongs to.
    pub const fn group(&self) -> Group {
        match self {
            Cell::Hour(_) => Group::Hour,
            Cell::Day(_) => Group::Day,
            Cell::Chain(_) => Group::Chain,
            Cell::Method(..) => Group::Method,
            Cell::Key(_) => Group::Key,
            Cell::Project(_) => Group::Project,
            Cell::Transport(_) => Group::Transport,
            Cell::Status(_) => Group::Status,
        }
    }
}
