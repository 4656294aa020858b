//! How do I charge and record calls of my own types?
//!
//! A program draws maps for its customers. It does not use HTTP here: [`Order`] and [`Map`] are plain structs. It uses
//! `QuotaLayer` of rpcgate: a customer has a number of Compute Units in 24 hours, the cost of a map depends on its
//! size, a map that could not be drawn costs nothing, and every order creates a record for the invoices.
//!
//! Run it with `cargo run -p rpcgate-examples --example quota_alone`.
#![expect(clippy::print_stdout, reason = "it prints the charges")]

use rpcgate_core::prelude::*;
use rpcgate_layers::prelude::*;
use std::{convert::Infallible, sync::Arc};
use tower::{Layer, Service, ServiceExt, service_fn};

/// An order of a map.
struct Order {
    customer: Arc<Caller>,
    /// The length of an edge in pixels.
    size: u32,
}

/// The response to an order.
#[derive(PartialEq, Eq, Debug)]
enum Map {
    Drawn(u32),
    TooLarge,
    Refused(String),
}

/// Returns a customer with 100 Compute Units a day.
fn customer(number: u128) -> Arc<Caller> {
    let mut caller =
        Caller::new(KeyId(number), ProjectId(number), TenantId(number), Plan::of(Tier::Standard));
    caller.quota.cu_per_day = 100;
    Arc::new(caller)
}

/// Returns the customer and the cost: a Compute Unit for every ten pixels of an edge.
fn price(order: &Order) -> Option<(CallerRef<'_>, CallView<'_>)> {
    let rule = MethodRule::new(order.size / 10);
    Some((CallerRef::from(&order.customer), CallView::new(ChainName::new("maps"), "draw", rule)))
}

async fn draw(order: Order) -> Result<Map, Infallible> {
    Ok(if order.size > 5_000 { Map::TooLarge } else { Map::Drawn(order.size) })
}

fn maps(
    clock: Arc<dyn Clock>,
    sink: Arc<dyn UsageSink>,
) -> impl Service<Order, Response = Map, Error = Infallible> + Clone {
    QuotaLayer::new(Arc::new(MemoryCounters::default()))
        .with_call(clock, price)
        .recording(sink)
        .charging_if(|map: &Map| matches!(map, Map::Drawn(_)))
        .refusing(|order: Order, refusal: Refusal| {
            Map::Refused(format!("no map of {}: {refusal}", order.size))
        })
        .layer(service_fn(draw))
}

#[tokio::main]
async fn main() -> Result<(), Infallible> {
    let sink = Arc::new(MemoryUsageSink::default());
    let maps = maps(Arc::new(SystemClock::new()), sink.clone());
    let ann = customer(1);
    for size in [400, 6_000, 600, 10] {
        let map = maps.clone().oneshot(Order { customer: ann.clone(), size }).await?;
        println!("{size:>5} pixels: {map:?}");
    }
    for record in sink.records() {
        let line = &record.lines[0];
        println!("{:>4} CU  {}  {:?}", line.cu, line.method, line.outcome);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::usage_sink::Outcome;
    use std::time::Duration;

    #[tokio::test]
    async fn only_drawn_maps_are_charged_and_every_order_leaves_a_record() {
        let sink = Arc::new(MemoryUsageSink::default());
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let maps = maps(clock.clone(), sink.clone());
        let ann = customer(1);
        let ben = customer(2);
        let order = async |customer: &Arc<Caller>, size| {
            let Ok(map) = maps.clone().oneshot(Order { customer: customer.clone(), size }).await;
            map
        };
        assert_eq!(order(&ann, 400).await, Map::Drawn(400));
        assert_eq!(order(&ann, 6_000).await, Map::TooLarge);
        assert_eq!(order(&ann, 700).await, Map::Drawn(700), "the call that reaches the ceiling is served");
        assert_eq!(order(&ann, 10).await, Map::Refused("no map of 10: compute unit quota exceeded".into()));
        assert_eq!(order(&ben, 10).await, Map::Drawn(10), "another customer has a quota of its own");
        let charged: Vec<_> =
            sink.records().iter().map(|record| (record.lines[0].cu, record.lines[0].outcome)).collect();
        assert_eq!(
            (charged[0], charged[2], charged[4]),
            ((40, Outcome::Answered), (70, Outcome::Answered), (1, Outcome::Answered))
        );
        assert_eq!((charged[1].0, charged[3]), (0, (0, Outcome::Refused)));
        clock.advance(Duration::from_secs(25 * 3_600));
        assert_eq!(order(&ann, 10).await, Map::Drawn(10), "a day later the units are free again");
    }
}
