//! Counters of answered requests.

use http::{Method, StatusCode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use std::time::Duration;

/// The upper bounds of the duration buckets in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];
/// The label for paths that are not routes, and for methods that no route has.
const NONE: &str = "(none)";

/// The labels of a metric.
pub type Labels = Vec<(&'static str, String)>;

/// Metrics of answered requests. Clones share the counters.
#[derive(Clone, Debug)]
pub struct Requests {
    /// The number of requests by route, method and status.
    pub answered: Family<Labels, Counter>,
    /// The time until the answer, by route and method.
    pub took: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for Requests {
    fn default() -> Self {
        let took: fn() -> Histogram = || Histogram::new(BOUNDS);
        Requests { answered: Family::default(), took: Family::new_with_constructor(took) }
    }
}

impl Requests {
    /// Counts a request for `route` as it is declared, or `None` for a path that is not a route.
    pub fn count(&self, route: Option<&str>, method: &Method, status: StatusCode, took: Duration) {
        let route = route.unwrap_or(NONE).to_owned();
        let known = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS];
        let method = if known.contains(method) { method.as_str() } else { NONE };
        let labels = vec![("route", route), ("method", method.to_owned())];
        self.took.get_or_create(&labels).observe(took.as_secs_f64());
        let labels = [labels, vec![("status", status.as_str().to_owned())]].concat();
        self.answered.get_or_create(&labels).inc();
    }
}
